-- msrepl.release_held: sends what is held, once no statement is open any more.
-- called by: capture triggers of tables that may hold, close_statement
-- tables:    none here; see send_held
-- holes:     owner
create or replace function msrepl.release_held() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if strpos(coalesce(current_setting('msrepl.open_statements', true), ''), ';') = 0 then
        perform set_config('msrepl.open_statements', '', true);
        perform set_config('msrepl.holding', '', true);
        perform msrepl.send_held();
    end if;
end
$msrepl$;
alter function msrepl.release_held() owner to {owner};
revoke all on function msrepl.release_held() from public;
comment on function msrepl.release_held() is 'Sends what is held, once no statement is open any more';
