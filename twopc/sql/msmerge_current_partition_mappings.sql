-- msrepl.msmerge_current_partition_mappings: which rows of filtered articles belong to which partitions.
-- called by: msmerge_map_<artid>, msmerge_enumerate_<artid>, msmerge_filter_<artid>
-- tables:    itself
-- holes:     owner
--
-- As of the newest closed generation, and for all rows, not only those that were changed: the partitions of a
-- deleted row are looked up here. generation is the one with which the row came into the partition.
create table if not exists msrepl.msmerge_current_partition_mappings (
    tablenick integer not null,
    rowguid uuid not null,
    partition_id integer not null references msrepl.msmerge_partition_groups on delete cascade,
    generation int8 not null,
    primary key (tablenick, rowguid, partition_id)
);
create index if not exists msmerge_current_partition_mappings_generation
    on msrepl.msmerge_current_partition_mappings (generation, partition_id, tablenick);
create index if not exists msmerge_current_partition_mappings_partition
    on msrepl.msmerge_current_partition_mappings (partition_id, tablenick);
alter table msrepl.msmerge_current_partition_mappings owner to {owner};
revoke all on msrepl.msmerge_current_partition_mappings from public;
comment on table msrepl.msmerge_current_partition_mappings is 'Which rows belong to which partitions';
