-- msrepl.merge_touch_mappings: has rows travel once more to the partition of the session's neighbour, or leave it again.
-- called by: merge agents, after rows of its were applied; msrepl.merge_acknowledge
-- tables:    msrepl.msmerge_*_partition_mappings, msrepl.sysmergearticles, msrepl.sysmergepartitioninfo,
--            msrepl.msmerge_genhistory
-- holes:     owner
--
-- What a Subscriber has sent, and does not belong to it, it is to hear that it leaves; the next close finds out what does
-- belong. Where rows have failed, those that belong are sent again too.
create or replace function msrepl.merge_touch_mappings(artid uuid, guids uuid[], has_failed boolean) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    nickname constant integer := (
        select a.nickname from msrepl.sysmergearticles as a join msrepl.sysmergepartitioninfo as i on i.artid = a.artid
        where a.artid = $1);
    next_generation constant int8 := (select max(g.generation) + 1 from msrepl.msmerge_genhistory as g);
begin
    if peer.partition_id is null or nickname is null or cardinality(guids) = 0 then
        return;
    end if;
    update msrepl.msmerge_current_partition_mappings as c set generation = next_generation
    where $3 and c.tablenick = nickname and c.partition_id = peer.partition_id and c.rowguid = any ($2);
    insert into msrepl.msmerge_past_partition_mappings as p (tablenick, rowguid, partition_id, generation, reason)
    select nickname, u.guid, peer.partition_id, next_generation, 4 from unnest($2) as u(guid)
    where not exists (
        select from msrepl.msmerge_current_partition_mappings as c
        where c.tablenick = nickname and c.rowguid = u.guid and c.partition_id = peer.partition_id)
    on conflict (tablenick, rowguid, partition_id) do update set generation = excluded.generation;
    insert into msrepl.msmerge_generation_partition_mappings as m (generation, partition_id, changecount)
    values (next_generation, peer.partition_id, cardinality($2)) on conflict (partition_id, generation) do nothing;
end
$msrepl$;
alter function msrepl.merge_touch_mappings(uuid, uuid[], boolean) owner to {owner};
revoke all on function msrepl.merge_touch_mappings(uuid, uuid[], boolean) from public;
comment on function msrepl.merge_touch_mappings(uuid, uuid[], boolean) is 'Has rows travel once more to a partition, or leave it again';
