-- msrepl.merge_rewind: makes this database another replica, because it was restored from a backup.
-- called by: merge agents, if a neighbour knows what this database has lost
-- tables:    msrepl.msmerge_replica, msrepl.sysmergesubscriptions, msrepl.msmerge_metadata, msrepl.msmerge_genhistory,
--            msrepl.msmerge_identity_range
-- holes:     owner
--
-- What was changed here up to the last generation that the neighbour has confirmed keeps its versions, under the old
-- number. Identity ranges of the node's own are withdrawn, since values may have been drawn from them that it does not
-- know of; it allots none until each Subscriber has reported which ranges it holds. What was changed later may have
-- versions that were given before, to other changes: it is changed once more, under the new number, and no longer
-- depends on changes under the old one.
create or replace function msrepl.merge_rewind() returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    old constant int8 := (select r.replica from msrepl.msmerge_replica as r);
    common constant pg_snapshot := (select g.snap from msrepl.msmerge_genhistory as g where g.generation = peer.sentgen);
    drawn constant int8 := greatest(1, ('x' || left(gen_random_uuid()::text, 8))::bit(32)::int8);
begin
    update msrepl.msmerge_replica as r set replica = drawn, former = r.former || old;
    update msrepl.sysmergesubscriptions as s set replnickname = drawn, former = s.former || old where s.is_self;
    update msrepl.msmerge_metadata as m
    set lineage = msrepl.merge_lineage(m.lineage, old, m.own), own = 0, colv = msrepl.merge_colv(m.colv, old)
    where m.own > 0 and pg_visible_in_snapshot(m.xid, common);
    update msrepl.msmerge_metadata as m
    set xid = pg_current_xact_id(), own = m.top + 1, top = m.top + 1, source = null,
        colv = case when m.colv is not null then array(
            select case when c.v <> 0 and c.v >> 31 in (0, old) then m.top + 1 else c.v end
            from unnest(m.colv) with ordinality as c(v, place) order by c.place) end
    where m.own > 0 and not pg_visible_in_snapshot(m.xid, common);
    delete from msrepl.msmerge_identity_range as r where r.place_end is not null;
    update msrepl.sysmergesubscriptions as s set ranges_known = false where s.login is not null and not s.is_publisher;
    perform msrepl.merge_begin_anew(peer.replnickname, greatest(peer.recgen, peer.known_from));
end
$msrepl$;
alter function msrepl.merge_rewind() owner to {owner};
revoke all on function msrepl.merge_rewind() from public;
comment on function msrepl.merge_rewind() is 'Becomes another replica after the database was restored';
