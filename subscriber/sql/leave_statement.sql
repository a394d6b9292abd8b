-- msrepl.leave_statement: counts a statement that ends, and says whether its rows must be held.
-- called by: capture triggers of tables that may hold, close_statement
-- tables:    none
-- holes:     owner
--
-- Returns the number under which the caller holds its rows, or 0 if it may send them: no other statement is
-- open, and nothing is held.
create or replace function msrepl.leave_statement(ends boolean, may_act boolean) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    others constant integer :=
        greatest(coalesce(nullif(current_setting('msrepl.open_statements', true), ''), '0')::integer - 1, 0);
    held constant integer := coalesce(nullif(current_setting('msrepl.held_calls', true), ''), '0')::integer;
begin
    if ends then
        perform set_config('msrepl.open_statements', others::text, true);
    end if;
    if others = 0 and held = 0 and not may_act then
        return 0;
    end if;
    perform set_config('msrepl.held_calls', (held + 1)::text, true);
    return held + 1;
end
$msrepl$;
alter function msrepl.leave_statement(boolean, boolean) owner to {owner};
revoke all on function msrepl.leave_statement(boolean, boolean) from public;
comment on function msrepl.leave_statement(boolean, boolean) is 'Counts a statement that ends, and says whether its rows must be held';
