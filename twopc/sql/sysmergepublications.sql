-- msrepl.sysmergepublications: what this database publishes, or subscribes to.
-- called by: twopc.drivers.merge.retention, twopc.drivers.merge.snapshots, msrepl.merge_is_expired, msrepl.merge_clean_up
-- tables:    itself
-- holes:     owner
--
-- retention is in days: a subscription without a session for that long has expired; 0: never. snapshot_folder is where
-- snapshots in files were last written.
create table if not exists msrepl.sysmergepublications (
    name text primary key,
    retention integer not null default 14 check (retention >= 0),
    snapshot_folder text,
    allow_subscriber_initiated_snapshot boolean not null default false
);
alter table msrepl.sysmergepublications owner to {owner};
revoke all on msrepl.sysmergepublications from public;
comment on table msrepl.sysmergepublications is 'Publications, each with how long it keeps metadata of changed rows';
