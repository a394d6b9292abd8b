-- msrepl.enter_statement: records the beginning of a statement on a table that may hold rows.
-- called by: BEFORE STATEMENT triggers of those tables
-- tables:    none
-- holes:     owner
--
-- msrepl.open_statements: how many statements have begun, then a semicolon, relation, operation and number of
-- each that is still open. A referential action opens its statement before the statement that caused it fires
-- its AFTER STATEMENT trigger, so the list is empty exactly when a statement has ended with all its actions
-- and nested triggers. If a user changes the setting, calls are sent too early, which the Publisher refuses,
-- or too late, for which prepare_branch compensates; nothing is lost.
create or replace function msrepl.enter_statement() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    state constant text := coalesce(nullif(current_setting('msrepl.open_statements', true), ''), '0');
    number constant integer := split_part(state, ';', 1)::integer + 1;
begin
    perform set_config('msrepl.open_statements',
        number || substr(state, strpos(state || ';', ';')) || ';' || tg_relid || ' ' || tg_op || ' ' || number, true);
    return null;
end
$msrepl$;
alter function msrepl.enter_statement() owner to {owner};
revoke all on function msrepl.enter_statement() from public;
comment on function msrepl.enter_statement() is 'Notes a statement that begins';
