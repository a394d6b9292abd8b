-- msrepl.fence_epochs: fences the epochs of a coordinator whose processes have ended.
-- called by: recovery, before it reads decisions
-- tables:    msrepl.coordinator_epoch, msrepl.living_epoch
-- holes:     coordinator
--
-- Their rows are locked first: an epoch that is being resumed is skipped, and a process that resumes one
-- later sees the fence. Then it is determined again which processes are alive, since a transaction sees the
-- sessions as they were when it first read them. Returns all fenced epochs, including earlier ones.
create or replace function msrepl.fence_epochs(coordinator text, own bigint[])
returns table (epoch bigint, variant text, fenced_s double precision)
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    candidates constant bigint[] := array(
        select e.epoch from msrepl.coordinator_epoch as e
        where e.coordinator = $1 and not e.fenced and e.epoch <> all ($2)
        for update skip locked);
begin
    perform pg_stat_clear_snapshot();
    update msrepl.coordinator_epoch as e
    set fenced = true, fenced_at = clock_timestamp()
    where e.epoch = any (candidates) and e.epoch not in (select l.epoch from msrepl.living_epoch as l);
    return query
        select e.epoch, e.variant, extract(epoch from clock_timestamp() - e.fenced_at)::double precision
        from msrepl.coordinator_epoch as e
        where e.coordinator = $1 and e.fenced and e.epoch <> all ($2);
end
$msrepl$;
revoke all on function msrepl.fence_epochs(text, bigint[]) from public;
grant execute on function msrepl.fence_epochs(text, bigint[]) to {coordinator};
comment on function msrepl.fence_epochs(text, bigint[]) is 'Fences the epochs whose processes are gone; returns all that are fenced';
