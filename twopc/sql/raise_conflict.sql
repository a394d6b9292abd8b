-- msrepl.raise_conflict: the only place where a refusal gets its message, SQLSTATE and numbers.
-- called by: sync procedures (Publisher), capture triggers (Subscriber)
-- tables:    none
-- holes:     owner
--
-- DETAIL is one JSON object, because dblink passes DETAIL through unchanged and loses every other field.
-- SQL Server raises 20515 (rows do not match) and then 20512 (rolling back); the second is in HINT.
create or replace function msrepl.raise_conflict(
    kind text, state text, number integer, article text, key jsonb,
    subscriber_version text, publisher_version text, publisher_row jsonb, message text,
    constraints text[] default null
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if octet_length(publisher_row::text) > 65536 then
        message := format('%s (the Publisher''s row has %s bytes and is not shown)',
                          message, octet_length(publisher_row::text));
        publisher_row := null;
    end if;
    raise exception using
        errcode = state,
        message = message,
        detail = json_build_object(
            'kind', kind, 'number', number, 'article', article, 'key', key,
            'subscriber_version', subscriber_version, 'publisher_version', publisher_version,
            'publisher_row', publisher_row, 'constraints', constraints)::text,
        hint = '20512: the transaction is rolled back at both sites.' || case
            when state in ('40001', '23505')
                then ' Trying again helps only after the Subscriber has synchronised.'
            else '' end;
end
$msrepl$;
alter function msrepl.raise_conflict(text, text, integer, text, jsonb, text, text, jsonb, text, text[]) owner to {owner};
revoke all on function msrepl.raise_conflict(text, text, integer, text, jsonb, text, text, jsonb, text, text[]) from public;
comment on function msrepl.raise_conflict(text, text, integer, text, jsonb, text, text, jsonb, text, text[])
    is 'Refuses a change: SQLSTATE, message, and the facts as JSON in DETAIL';
