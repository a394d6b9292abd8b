-- msrepl.sp_msreplraiserror: raises error 20598: the row that a call changes is not here.
-- called by: default procedures of articles; procedures of users that look for the row in the same way
-- tables:    none
-- holes:     owner
--
-- PUBLIC may execute it: it does nothing but fail, and a user's procedure may run as any role. The SQLSTATE
-- is not one that causes a retry: the row does not come back by itself.
create or replace function msrepl.sp_msreplraiserror(
    number integer, command text default null, article text default null, key jsonb default null,
    statement text default null
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    named text;
begin
    select string_agg(format('%I = %s', k.key, coalesce(k.value, 'NULL')), ', ') into named
    from jsonb_each_text($4) as k;
    raise exception using
        errcode = 'no_data_found',
        message = 'the row was not found at the Subscriber when applying the replicated '
            || coalesce($2 || ' ', '') || 'command' || coalesce(' for table ' || $3, '')
            || coalesce(' with primary key ' || named, '') || format(' (%s)', $1),
        detail = json_build_object('kind', 'row_missing', 'number', $1, 'command', $2, 'article', $3,
                                   'key', $4, 'statement', left($5, 1000))::text,
        hint = 'The Subscriber has lost or never had the row: `twopc agent distribution SUBSCRIBER --skip-errors 20598 --once` goes on without the transaction, `twopc validate SUBSCRIBER --repair` mends what is then missing.';
end
$msrepl$;
alter function msrepl.sp_msreplraiserror(integer, text, text, jsonb, text) owner to {owner};
revoke all on function msrepl.sp_msreplraiserror(integer, text, text, jsonb, text) from public;
grant execute on function msrepl.sp_msreplraiserror(integer, text, text, jsonb, text) to public;
comment on function msrepl.sp_msreplraiserror(integer, text, text, jsonb, text)
    is 'Refuses a call whose row is not here (20598): SQLSTATE P0002, the facts as JSON in DETAIL';
