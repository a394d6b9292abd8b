-- msrepl.msdynamicsnapshotjobs: the runs of the Snapshot Agent whose snapshots still exist.
-- called by: administrators
-- tables:    msrepl.msmerge_dynamic_snapshots, msrepl.msmerge_partition_groups, msrepl.sysmergepublications, msrepl.sysmergesubscriptions
-- holes:     owner
create or replace view msrepl.msdynamicsnapshotjobs as
select concat_ws('-', s.subscriber_server, current_database(), p.name, d.partition_id) as name, p.name as publication,
       g.host_name_fn as dynamic_filter_hostname, g.suser_sname_fn as dynamic_filter_login, d.partition_id,
       d.dynamic_snapshot_location, d.initiated_by, d.last_updated
from msrepl.msmerge_dynamic_snapshots as d
cross join msrepl.sysmergepublications as p
join msrepl.sysmergesubscriptions as s on s.is_self
left join msrepl.msmerge_partition_groups as g on g.partition_id = d.partition_id;
alter view msrepl.msdynamicsnapshotjobs owner to {owner};
revoke all on msrepl.msdynamicsnapshotjobs from public;
comment on view msrepl.msdynamicsnapshotjobs is 'Runs of the Snapshot Agent, by Publisher, database, publication and partition';
