-- msrepl.merge_begin_anew: discards the progress with the session's neighbour, and what came from there.
-- called by: merge agents, if either end was restored from a backup; msrepl.merge_rewind
-- tables:    msrepl.sysmergesubscriptions, msrepl.msmerge_metadata, msrepl.msmerge_genhistory,
--            msrepl.msmerge_*_partition_mappings
-- holes:     owner
--
-- The next session then compares everything that was ever changed, except what the neighbour has removed: up to its
-- generation `cleaned`, which this node had received before. Of a filtered publication all rows of its partition are
-- sent: some may have left it since, of which the neighbour knows nothing.
create or replace function msrepl.merge_begin_anew(neighbour int8, cleaned int8) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    next_generation constant int8 := (select max(g.generation) + 1 from msrepl.msmerge_genhistory as g);
begin
    update msrepl.sysmergesubscriptions as s
    set replnickname = $1, former = case when s.replnickname = $1 then s.former else s.former || s.replnickname end,
        sentgen = 0, sentguid = null, known_from = $2, recgen = 0, recguid = null, coming_gen = null, coming_guid = null
    where s.subscriber_server = peer.subscriber_server;
    update msrepl.msmerge_metadata as m set source = null where m.source = any (peer.former || peer.replnickname);
    if peer.partition_id is not null then
        update msrepl.msmerge_current_partition_mappings as c set generation = next_generation where c.partition_id = peer.partition_id;
        insert into msrepl.msmerge_generation_partition_mappings as m (generation, partition_id, changecount)
        values (next_generation, peer.partition_id, 1) on conflict (partition_id, generation) do nothing;
    end if;
    update msrepl.msmerge_genhistory as g set known_by = null where peer.is_publisher and g.known_by is not null;
end
$msrepl$;
alter function msrepl.merge_begin_anew(int8, int8) owner to {owner};
revoke all on function msrepl.merge_begin_anew(int8, int8) from public;
comment on function msrepl.merge_begin_anew(int8, int8) is 'Forgets how far this node is with a neighbour';
