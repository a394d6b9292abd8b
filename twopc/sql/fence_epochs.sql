-- msrepl.fence_epochs: fences the epochs of a coordinator whose processes are gone.
-- called by: recovery, before it reads decisions
-- tables:    msrepl.coordinator_epoch
-- holes:     coordinator
--
-- The lock is let go when this transaction has committed, so no session can take it and log a decision
-- without seeing the fence. Returns all fenced epochs, old ones too.
create or replace function msrepl.fence_epochs(coordinator text, own bigint[])
returns table (epoch bigint, variant text, fenced_s double precision)
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    candidate bigint;
begin
    for candidate in
        select e.epoch from msrepl.coordinator_epoch as e
        where e.coordinator = $1 and not e.fenced and e.epoch <> all ($2)
    loop
        if pg_try_advisory_xact_lock(1836282469, candidate::integer) then
            update msrepl.coordinator_epoch as e
            set fenced = true, fenced_at = clock_timestamp()
            where e.epoch = candidate and not e.fenced;
        end if;
    end loop;
    return query
        select e.epoch, e.variant, extract(epoch from clock_timestamp() - e.fenced_at)::double precision
        from msrepl.coordinator_epoch as e
        where e.coordinator = $1 and e.fenced and e.epoch <> all ($2);
end
$msrepl$;
revoke all on function msrepl.fence_epochs(text, bigint[]) from public;
grant execute on function msrepl.fence_epochs(text, bigint[]) to {coordinator};
comment on function msrepl.fence_epochs(text, bigint[]) is 'Fences the epochs whose processes are gone; returns all that are fenced';
