-- msrepl.living_epoch: the epochs whose processes are alive, which is as long as the session is there that
-- writes their decisions.
-- called by: fence_epochs, twopc.drivers.in_doubt
-- tables:    msrepl.coordinator_epoch, pg_stat_activity
-- holes:     none
--
-- A lock would not tell: any role may take any advisory lock. Whoever may not see when the session began, as an
-- administrator without the coordinator's role, takes it for alive if process and role are right.
create or replace view msrepl.living_epoch as
select e.epoch
from msrepl.coordinator_epoch as e
join pg_catalog.pg_stat_activity as a on a.pid = e.pid and a.usename = e.usename
where not e.fenced and coalesce(a.backend_start = e.backend_start, true);
comment on view msrepl.living_epoch is 'The epochs whose processes are alive';
