-- msrepl.prepare_again: determines over a new connection the outcome of a PREPARE whose answer is missing.
-- called by: prepare_branch, when the link was lost
-- tables:    at the Publisher: pg_prepared_xacts
-- holes:     owner, link
--
-- If the link was open and the branch is prepared, PREPARE has arrived: the vote is yes. Otherwise, if the
-- message contains the whole branch (lazy shipping), it is sent again: should the first one still be on its
-- way, the branch marker admits only one of them. Returns the command tag.
create or replace function msrepl.prepare_again(gid text, whole boolean, message text, command text) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    was_open constant boolean := {link} = any (coalesce(msrepl_link.dblink_get_connections(), array[]::text[]));
    detail text;
    context text;
    hint text;
begin
    perform msrepl.open_link();
    begin
        if was_open and msrepl.query_link(format(
            'set search_path = pg_catalog, pg_temp;'
            'select exists (select from pg_prepared_xacts where gid = %L and owner = session_user)', gid))::boolean
        then
            return 'PREPARE TRANSACTION';
        elsif whole then
            return msrepl_link.dblink_exec({link}, command);
        end if;
    exception
        when query_canceled then
            perform msrepl.drain_link();
            raise;
        when others then
            get stacked diagnostics detail = pg_exception_detail, context = pg_exception_context, hint = pg_exception_hint;
            if was_open and sqlstate = '55P03' then
                -- the first PREPARE may be what holds the lock: the outcome is unknown, which is not a no
                perform msrepl.explain_failure('08006', sqlerrm, null, null, command);
            end if;
            perform msrepl.explain_failure(sqlstate, sqlerrm, detail, context, command, hint);
            raise;
    end;
    perform msrepl.explain_failure('08006', message, null, null, command);
    return null;
end
$msrepl$;
alter function msrepl.prepare_again(text, boolean, text, text) owner to {owner};
revoke all on function msrepl.prepare_again(text, boolean, text, text) from public;
comment on function msrepl.prepare_again(text, boolean, text, text) is 'Finds out what became of a PREPARE whose answer is missing';
