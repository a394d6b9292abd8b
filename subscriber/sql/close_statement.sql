-- msrepl.close_statement: ends a statement whose rows an AFTER ROW trigger has captured.
-- called by: AFTER STATEMENT triggers of tables that may hold rows and have AFTER ROW triggers of users
-- tables:    none here; see send_held
-- holes:     owner
create or replace function msrepl.close_statement() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    perform msrepl.leave_statement(tg_relid, tg_op, true, true);
    perform msrepl.release_held(null);
    return null;
end
$msrepl$;
alter function msrepl.close_statement() owner to {owner};
revoke all on function msrepl.close_statement() from public;
comment on function msrepl.close_statement() is 'Ends a statement whose rows an AFTER ROW trigger has captured';
