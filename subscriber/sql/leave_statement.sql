-- msrepl.leave_statement: records the end of a statement, and tells whether its rows must be held.
-- called by: capture triggers of tables that may hold rows, close_statement
-- tables:    msrepl.held_row (its constraint)
-- holes:     owner
--
-- Returns the number of the statement, under which the caller holds its rows, or 0 if it may send them: no
-- other statement is open, and nothing is held. Among statements of the same kind on the same table, the
-- one that began first ends first.
create or replace function msrepl.leave_statement(relation oid, operation text, ends boolean, may_act boolean)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    state constant text := coalesce(current_setting('msrepl.open_statements', true), '');
    entry constant text := substring(state from ';' || relation || ' ' || operation || ' [0-9]+');
    others constant text := overlay(state placing '' from strpos(state, entry) for length(entry));
begin
    if ends and entry is not null then
        perform set_config('msrepl.open_statements', others, true);
    end if;
    if strpos(coalesce(others, state), ';') = 0 and not may_act
        and coalesce(current_setting('msrepl.held_rows', true), '') = ''
    then
        return 0;
    end if;
    -- whatever the application has set: what is held from here on is checked at the end of the transaction
    set constraints msrepl.held_rows_are_sent deferred;
    return coalesce(substring(entry from '[0-9]+$')::integer, 1);
end
$msrepl$;
alter function msrepl.leave_statement(oid, text, boolean, boolean) owner to {owner};
revoke all on function msrepl.leave_statement(oid, text, boolean, boolean) from public;
comment on function msrepl.leave_statement(oid, text, boolean, boolean) is 'Notes a statement that ends, and says whether its rows must be held';
