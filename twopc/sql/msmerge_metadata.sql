-- msrepl.msmerge_metadata: metadata of each row that was changed, one partition per article.
-- called by: the triggers of articles; msrepl.msmerge_contents, msrepl.msmerge_tombstone
-- tables:    itself
-- holes:     owner
--
-- xid is the transaction that last changed the row, own the last version that this database gave it (0: none),
-- top the highest version of any replica. lineage holds the versions of the other replicas, each packed as
-- replica * 2^31 + version; so does colv for each column, where replica 0 is this database, and 0 no change.
-- source is the replica of the neighbour from which the present version came, NULL if it was made here; writer
-- is that of the node that made it.
create table if not exists msrepl.msmerge_metadata (
    tablenick integer not null,
    rowguid uuid not null,
    xid xid8 not null,
    gone boolean not null,
    own integer not null,
    top integer not null,
    lineage int8[],
    colv int8[],
    source int8,
    writer int8
) partition by list (tablenick);
alter table msrepl.msmerge_metadata owner to {owner};
revoke all on msrepl.msmerge_metadata from public;
comment on table msrepl.msmerge_metadata is 'One row for each row of an article that was changed or deleted';
