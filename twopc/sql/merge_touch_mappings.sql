-- msrepl.merge_touch_mappings: has rows travel once more to the partition of the session's neighbour, or leave it again.
-- called by: merge agents, after rows of its were applied; msrepl.merge_acknowledge
-- tables:    msrepl.sysmergearticles, msrepl.sysmergepartitioninfo; see msrepl.merge_touch_partition
-- holes:     owner
--
-- What a Subscriber has sent, and does not belong to it, it is to hear that it leaves; the next close finds out what does
-- belong. Where rows have failed, those that belong are sent again too.
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
