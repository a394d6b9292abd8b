-- msrepl.resume_epoch: continues an epoch after the session that wrote its decisions was lost.
-- called by: the coordinator, after it has reconnected
-- tables:    msrepl.coordinator_epoch
-- holes:     coordinator
--
-- The old session may still exist at the server after its client has lost it, and one of its inserts may
-- still arrive: it is terminated, and waited for. Returns false if the epoch was fenced in the meantime.
create or replace function msrepl.resume_epoch(epoch bigint) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    old record;
begin
    -- locked, because fence_epochs skips an epoch that is being resumed
    select e.pid, e.backend_start into old
    from msrepl.coordinator_epoch as e where e.epoch = $1 and not e.fenced for update;
    if not found then
        return false;
    end if;
    if not coalesce((
        select pg_terminate_backend(a.pid, 5000)
        from pg_stat_activity as a
        where a.pid = old.pid and a.backend_start = old.backend_start and a.pid <> pg_backend_pid()), true)
    then
        raise exception 'session % has written decisions of epoch %, was lost, and does not end', old.pid, $1
            using errcode = 'object_in_use';
    end if;
    update msrepl.coordinator_epoch as e set (pid, usename, backend_start) = (
        select a.pid, a.usename, a.backend_start from pg_stat_activity as a where a.pid = pg_backend_pid())
    where e.epoch = $1;
    return true;
end
$msrepl$;
revoke all on function msrepl.resume_epoch(bigint) from public;
grant execute on function msrepl.resume_epoch(bigint) to {coordinator};
comment on function msrepl.resume_epoch(bigint) is 'Goes on with an epoch in this session; false: it was fenced';
