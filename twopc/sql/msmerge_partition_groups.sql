-- msrepl.msmerge_partition_groups: the partitions of this database's publication.
-- called by: msrepl.merge_partition, msmerge_filter_<artid>
-- tables:    itself
-- holes:     owner
--
-- Subscribers whose filters have the same values share a row. A value that no filter uses is NULL. maxgen_whenadded
-- is the generation for which all rows were evaluated; NULL: they have not been since the partition was added, or since
-- a filtered table was published.
create table if not exists msrepl.msmerge_partition_groups (
    partition_id integer generated always as identity primary key,
    host_name_fn text,
    suser_sname_fn text,
    maxgen_whenadded int8,
    unique nulls not distinct (host_name_fn, suser_sname_fn)
);
alter table msrepl.msmerge_partition_groups owner to {owner};
revoke all on msrepl.msmerge_partition_groups from public;
comment on table msrepl.msmerge_partition_groups is 'Partitions: each distinct set of values of the publication''s filters';
