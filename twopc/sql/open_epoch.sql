-- msrepl.open_epoch: gives a coordinator process a new epoch, which is alive as long as this session.
-- called by: the coordinator, on the connection that will log its decisions
-- tables:    msrepl.coordinator_epoch
-- holes:     coordinator
create or replace function msrepl.open_epoch(coordinator text, variant text) returns bigint
language sql
set search_path = pg_catalog, pg_temp
as $msrepl$
    insert into msrepl.coordinator_epoch (coordinator, variant, pid, usename, backend_start)
    select $1, $2, a.pid, a.usename, a.backend_start from pg_stat_activity as a where a.pid = pg_backend_pid()
    returning epoch
$msrepl$;
revoke all on function msrepl.open_epoch(text, text) from public;
grant execute on function msrepl.open_epoch(text, text) to {coordinator};
comment on function msrepl.open_epoch(text, text) is 'A new epoch, alive as long as this session is';
