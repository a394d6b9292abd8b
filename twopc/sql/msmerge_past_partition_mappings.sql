-- msrepl.msmerge_past_partition_mappings: which rows no longer belong to a partition.
-- called by: msmerge_map_<artid>, msmerge_enumerate_<artid>, msrepl.merge_touch_partition
-- tables:    itself
-- holes:     owner
--
-- generation is the one with which the row has left. reason: 1 deleted, 2 changed, 3 another row was changed, 4 a
-- Subscriber has sent the row, which does not belong to it, and must be told that it leaves.
create table if not exists msrepl.msmerge_past_partition_mappings (
    tablenick integer not null,
    rowguid uuid not null,
    partition_id integer not null references msrepl.msmerge_partition_groups on delete cascade,
    generation int8 not null,
    reason smallint not null check (reason between 1 and 4),
    primary key (tablenick, rowguid, partition_id)
);
create index if not exists msmerge_past_partition_mappings_generation
    on msrepl.msmerge_past_partition_mappings (generation, partition_id, tablenick);
alter table msrepl.msmerge_past_partition_mappings owner to {owner};
revoke all on msrepl.msmerge_past_partition_mappings from public;
comment on table msrepl.msmerge_past_partition_mappings is 'Which rows have left which partitions';
