-- msrepl.sysmergepartitioninfo: the articles of which not every Subscriber gets every row.
-- called by: twopc.publisher.merge.filters, msrepl.merge_map, msrepl.merge_articles
-- tables:    itself; msrepl.sysmergearticles
-- holes:     owner
--
-- subset_filterclause is the row filter as PostgreSQL prints it, NULL if rows belong to partitions by join filters
-- alone. use_partition_groups: a close evaluates only what has changed; otherwise it evaluates everything, with
-- filters_on_time even if nothing has changed. partition_options: 0 rows may be moved out of a Subscriber's partition;
-- 1 they may not; 2 they may not, and belong to one partition only; 3 in addition, that partition has one Subscriber.
create table if not exists msrepl.sysmergepartitioninfo (
    artid uuid primary key references msrepl.sysmergearticles on delete cascade,
    subset_filterclause text,
    use_partition_groups boolean not null,
    filters_on_time boolean not null,
    partition_options smallint not null default 0 check (partition_options between 0 and 3),
    allow_partition_realignment boolean not null default true
);
alter table msrepl.sysmergepartitioninfo owner to {owner};
revoke all on msrepl.sysmergepartitioninfo from public;
comment on table msrepl.sysmergepartitioninfo is 'Articles of which not every Subscriber gets every row';
