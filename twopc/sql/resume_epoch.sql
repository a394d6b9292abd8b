-- msrepl.resume_epoch: takes an epoch's lock again after its session was lost.
-- called by: the coordinator, when it has connected again
-- tables:    msrepl.coordinator_epoch
-- holes:     coordinator
--
-- The old session may live on at the server after its client has lost it, and an insert of it may still
-- land: it is ended, and its lock waited for. Returns false if the epoch was fenced meanwhile.
create or replace function msrepl.resume_epoch(epoch bigint, old_pid integer, old_start timestamptz) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '5s'
as $msrepl$
#variable_conflict use_column
begin
    perform pg_terminate_backend(a.pid)
    from pg_stat_activity as a
    where a.pid = $2 and a.backend_start = $3 and a.pid <> pg_backend_pid();
    perform pg_advisory_lock(1836282469, $1::integer);
    return exists (select from msrepl.coordinator_epoch as e where e.epoch = $1 and not e.fenced);
end
$msrepl$;
revoke all on function msrepl.resume_epoch(bigint, integer, timestamptz) from public;
grant execute on function msrepl.resume_epoch(bigint, integer, timestamptz) to {coordinator};
comment on function msrepl.resume_epoch(bigint, integer, timestamptz) is 'Takes the lock of an epoch again; false: it was fenced';
