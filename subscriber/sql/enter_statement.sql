-- msrepl.enter_statement: counts a statement that begins on a table that may hold.
-- called by: BEFORE STATEMENT triggers of those tables
-- tables:    none
-- holes:     owner
--
-- A referential action opens its statement before the statement that caused it fires its AFTER STATEMENT
-- trigger, so the count is back at zero exactly when a statement is done with all its actions and nested
-- triggers. A user who tampers with it makes calls go too early, which the Publisher refuses, or too late,
-- which prepare_publisher makes up for; nothing is lost.
create or replace function msrepl.enter_statement() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    perform set_config('msrepl.open_statements',
        (coalesce(nullif(current_setting('msrepl.open_statements', true), ''), '0')::integer + 1)::text, true);
    return null;
end
$msrepl$;
alter function msrepl.enter_statement() owner to {owner};
revoke all on function msrepl.enter_statement() from public;
comment on function msrepl.enter_statement() is 'Counts a statement that begins';
