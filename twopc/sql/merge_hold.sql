-- msmerge_hold_<artid>: locks and returns what is held here of rows that a neighbour has sent.
-- called by: merge agents that ask a resolver or a handler about rows, before merge_apply in the same transaction
-- tables:    the article's table and its part of msrepl.msmerge_metadata; msrepl.sysmergesubscriptions, msrepl.msmerge_genhistory
-- holes:     function, metadata, floor, lock, read, path_is_kept, owner, comment
--
-- Rows are locked before their metadata, as by applications.
create or replace function {function}(guids uuid[], writers int8[])
returns table (
    rowguid uuid, "row" text, gone boolean, lineage int8[], colv int8[], held_by text, held_priority real,
    peer text, priority real, replica int8,
    is_confirmed boolean, lowest integer, others int8[]
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    me constant int8 := (select r.replica from msrepl.msmerge_replica as r);
    confirmed constant pg_snapshot := (
        select g.snap from msrepl.msmerge_genhistory as g where g.generation = peer.sentgen and peer.is_publisher);
begin
    perform from {lock}($1);
{path_is_kept}
    perform from {metadata} as m where m.rowguid = any ($1) order by m.rowguid for update;
    return query
    select i.guid, h."row", case when m.rowguid is not null then h.rowguid is null end, msrepl.merge_lineage(m.lineage, me, m.own), msrepl.merge_colv(m.colv, me),
           coalesce(w.subscriber_server, s.subscriber_server),
           case when w.subscriber_type = 1 then w.priority else 100 end,
           peer.subscriber_server, msrepl.merge_priority(peer, i.writer), me,
           coalesce(pg_visible_in_snapshot(m.xid, confirmed), false), (select f.last_value::integer from {floor} as f),
           coalesce(msrepl.merge_others(peer), '{{}}')
    from unnest($1, $2) with ordinality as i(guid, writer, place)
    left join {read}($1) as h on h.rowguid = i.guid
    left join {metadata} as m on m.rowguid = i.guid
    left join msrepl.sysmergesubscriptions as w on m.writer = any (w.former || w.replnickname)
    join msrepl.sysmergesubscriptions as s on s.is_self
    order by i.place;
{path_is_kept}
end
$msrepl$;
alter function {function}(uuid[], int8[]) owner to {owner};
revoke all on function {function}(uuid[], int8[]) from public;
comment on function {function}(uuid[], int8[]) is {comment};
