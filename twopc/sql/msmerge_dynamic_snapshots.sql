-- msrepl.msmerge_dynamic_snapshots: the snapshots in files that exist of this database's publication.
-- called by: twopc.drivers.merge.snapshots
-- tables:    itself
-- holes:     owner
--
-- digest is the SHA-256 of the manifest, which has those of all files: a folder is used only if its manifest is one of
-- these, wherever the folder is. partition_id is NULL if the publication is not filtered. initiated_by is the
-- Subscriber for which the snapshot was made; NULL: it was made by an administrator.
create table if not exists msrepl.msmerge_dynamic_snapshots (
    digest text primary key,
    partition_id integer,
    dynamic_snapshot_location text not null,
    generation int8 not null,
    guidsrc uuid not null,
    initiated_by text,
    last_updated timestamptz not null default clock_timestamp()
);
alter table msrepl.msmerge_dynamic_snapshots owner to {owner};
revoke all on msrepl.msmerge_dynamic_snapshots from public;
comment on table msrepl.msmerge_dynamic_snapshots is 'Snapshots in files, by the digests of their manifests';
