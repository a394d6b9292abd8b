-- msrepl.merge_touch_mappings: sends rows to the partition of the session's neighbour again, or makes them
-- leave it again.
-- called by: merge agents, after they have applied rows of the neighbour; msrepl.merge_acknowledge
-- tables:    msrepl.sysmergearticles, msrepl.sysmergepartitioninfo; see msrepl.merge_touch_partition
-- holes:     owner
--
-- A Subscriber must be told that rows leave which it has sent and which do not belong to it; the next close determines
-- which rows do belong. Where rows have failed, those that belong are sent again too.
create or replace function msrepl.merge_touch_mappings(artid uuid, guids uuid[], has_failed boolean) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    select msrepl.merge_touch_partition(a.nickname, n.partition_id, $2, $3)
    from msrepl.sysmergearticles as a
    join msrepl.sysmergepartitioninfo as i on i.artid = a.artid
    cross join msrepl.merge_neighbour() as n
    where a.artid = $1 and n.partition_id is not null and cardinality($2) > 0
$msrepl$;
alter function msrepl.merge_touch_mappings(uuid, uuid[], boolean) owner to {owner};
revoke all on function msrepl.merge_touch_mappings(uuid, uuid[], boolean) from public;
comment on function msrepl.merge_touch_mappings(uuid, uuid[], boolean) is 'Has rows travel once more to a partition, or leave it again';
