-- msrepl.open_epoch: gives a coordinator process an epoch of its own and the lock that says it is alive.
-- called by: the coordinator, on the connection that will log its decisions
-- tables:    msrepl.coordinator_epoch
-- holes:     coordinator
create or replace function msrepl.open_epoch(coordinator text, variant text) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    opened bigint;
begin
    insert into msrepl.coordinator_epoch (coordinator, variant) values ($1, $2)
    returning epoch into opened;
    perform pg_advisory_lock(1836282469, opened::integer);
    return opened;
end
$msrepl$;
revoke all on function msrepl.open_epoch(text, text) from public;
grant execute on function msrepl.open_epoch(text, text) to {coordinator};
comment on function msrepl.open_epoch(text, text) is 'A new epoch, and the lock of this session that says it is alive';
