-- msrepl.living_epoch: the epochs whose processes are alive: the session that writes their decisions still exists.
-- called by: fence_epochs, twopc.drivers.in_doubt
-- tables:    msrepl.coordinator_epoch, pg_stat_activity
-- holes:     none
--
-- A lock would prove nothing: any role can take any advisory lock. A role that may not see when the session
-- began, such as an administrator without the coordinator's role, treats it as alive if process and role match.
create or replace view msrepl.living_epoch as
select e.epoch
from msrepl.coordinator_epoch as e
join pg_catalog.pg_stat_activity as a on a.pid = e.pid and a.usename = e.usename
where not e.fenced and coalesce(a.backend_start = e.backend_start, true);
comment on view msrepl.living_epoch is 'The epochs whose processes are alive';
