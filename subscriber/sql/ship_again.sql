-- msrepl.ship_again: decides about a call that failed.
-- called by: capture triggers, flush
-- tables:    none
-- holes:     owner, link
--
-- The first call of a transaction may be repeated once over a new connection, because nothing of this
-- transaction can be lost at the Publisher yet. A later one never. Returns true if the repetition
-- succeeded, false if the caller's own error is to be raised.
create or replace function msrepl.ship_again(state text, message text, detail text, first boolean, command text)
returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    -- a name without a connection is taken for a connection string, and fails with any of several errors
    if not {link} = any (coalesce(msrepl_link.dblink_get_connections(), array[]::text[]))
        or state like '08%' or state in ('57P01', '57P02', '57P03', '25P03', '25P04')
    then
        if first then
            perform msrepl.open_link();
            perform msrepl_link.dblink_exec({link}, command);
            return true;
        end if;
        raise exception 'the link to the Publisher broke within the transaction: %', message
            using errcode = 'connection_failure',
                  detail = json_build_object('kind', 'publisher_unreachable', 'number', 21054)::text,
                  hint = 'Nothing was changed at either site: roll back and try again.';
    elsif state = '23505' and not starts_with(detail, chr(123)) then
        perform msrepl.raise_conflict('update_exists', '23505', 20515, null, null, null, null, null, message);
    end if;
    return false;
end
$msrepl$;
alter function msrepl.ship_again(text, text, text, boolean, text) owner to {owner};
revoke all on function msrepl.ship_again(text, text, text, boolean, text) from public;
comment on function msrepl.ship_again(text, text, text, boolean, text) is 'Repeats the first call of a transaction, or says what its failure means';
