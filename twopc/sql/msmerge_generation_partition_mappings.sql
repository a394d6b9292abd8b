-- msrepl.msmerge_generation_partition_mappings: which generations contain anything for which partitions.
-- called by: msrepl.merge_map_generation, msrepl.merge_touch_partition, msmerge_enumerate_<artid>
-- tables:    itself
-- holes:     owner
--
-- partition_id -1: changes of articles that are not filtered, which concern all.
create table if not exists msrepl.msmerge_generation_partition_mappings (
    generation int8 not null,
    partition_id integer not null,
    changecount integer not null,
    primary key (partition_id, generation)
);
alter table msrepl.msmerge_generation_partition_mappings owner to {owner};
revoke all on msrepl.msmerge_generation_partition_mappings from public;
comment on table msrepl.msmerge_generation_partition_mappings is 'Which generations hold anything for which partitions';
