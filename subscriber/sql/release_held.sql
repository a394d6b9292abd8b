-- msrepl.release_held: records a set of held rows, and sends what is held once no statement is open.
-- called by: capture triggers of tables that may hold rows, close_statement
-- tables:    none here; see send_held
-- holes:     owner
create or replace function msrepl.release_held(held tid) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if held is not null then
        perform set_config('msrepl.held_rows',
            concat_ws(' ', nullif(current_setting('msrepl.held_rows', true), ''), held), true);
    end if;
    if strpos(coalesce(current_setting('msrepl.open_statements', true), ''), ';') = 0 then
        perform set_config('msrepl.open_statements', '', true);
        perform msrepl.send_held();
    end if;
end
$msrepl$;
alter function msrepl.release_held(tid) owner to {owner};
revoke all on function msrepl.release_held(tid) from public;
comment on function msrepl.release_held(tid) is 'Notes rows that are held, and sends them once no statement is open';
