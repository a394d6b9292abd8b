-- msrepl.flush_log: returns when every commit that is visible here is durable, at a synchronous standby too.
-- called by: the coordinator, after a last agent's COMMIT; the resolver
-- tables:    none
-- holes:     owner
--
-- It does not rely on what the COMMIT itself waited for: a trigger of the application may have lowered
-- synchronous_commit after our own functions ran.
create or replace function msrepl.flush_log() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if current_setting('synchronous_standby_names') <> '' then
        if current_setting('synchronous_commit') not in ('on', 'remote_apply') then
            perform set_config('synchronous_commit', 'on', true);
        end if;
        perform pg_logical_emit_message(true, 'msrepl', '', true);
    elsif pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn() then
        perform pg_logical_emit_message(false, 'msrepl', '', true);
    end if;
end
$msrepl$;
alter function msrepl.flush_log() owner to {owner};
revoke all on function msrepl.flush_log() from public;
comment on function msrepl.flush_log() is 'Returns when every commit that could be seen is durable';
