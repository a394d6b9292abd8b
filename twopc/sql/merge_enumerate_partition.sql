-- msmerge_enumerate_<artid>: rows of a filtered article that a range of generations changed, for the session's neighbour.
-- called by: merge agents, in the transaction that has closed the last of these generations
-- tables:    the article's part of msrepl.msmerge_metadata, msrepl.msmerge_*_partition_mappings,
--            msrepl.msmerge_genhistory; the article's table
-- holes:     function, metadata, tablenick, read, changed_since, path_is_kept, owner, comment
--
-- Rows of its partition that were changed, rows that have come into it, and rows that have left it (leaves), which it
-- is to forget. What came from the neighbour is not sent back to it; a row that came into the partition by that, neither.
create or replace function {function}(after int8, upto int8)
returns table (rowguid uuid, gone boolean, lineage int8[], colv int8[], writer int8, "row" text, leaves boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    me constant int8 := (select r.replica from msrepl.msmerge_replica as r);
    seen constant pg_snapshot := (select g.snap from msrepl.msmerge_genhistory as g where g.generation = $1);
    present constant pg_snapshot := (select g.snap from msrepl.msmerge_genhistory as g where g.generation = $2);
begin
    if seen is null or present is null then
        raise exception 'generation % or % is not known here any more (21333)', $1, $2
            using errcode = 'object_not_in_prerequisite_state', hint = 'Subscribe anew.';
    end if;
    if not exists (
        select from msrepl.msmerge_generation_partition_mappings as m
        where m.partition_id = peer.partition_id and m.generation > $1 and m.generation <= $2)
    then
        return;
    end if;
    return query
    with changed as materialized (
        select m.rowguid, m.source from {metadata} as m
        where {changed_since}
    ), concerned as materialized (
        select c.rowguid, false as left_it
        from changed as m join msrepl.msmerge_current_partition_mappings as c
            on c.tablenick = {tablenick} and c.rowguid = m.rowguid and c.partition_id = peer.partition_id
        where m.source is distinct from peer.replnickname
      union
        select c.rowguid, false
        from msrepl.msmerge_current_partition_mappings as c
        where c.tablenick = {tablenick} and c.partition_id = peer.partition_id and c.generation > $1 and c.generation <= $2
          and not exists (select from {metadata} as m
                          where m.rowguid = c.rowguid and m.source = peer.replnickname
                            and msrepl.merge_generation(m.xid) = c.generation)
      union
        select p.rowguid, true
        from msrepl.msmerge_past_partition_mappings as p
        where p.tablenick = {tablenick} and p.partition_id = peer.partition_id and p.generation > $1 and p.generation <= $2
    )
    select c.rowguid, c.left_it or r.rowguid is null, coalesce(msrepl.merge_lineage(m.lineage, me, m.own), '{{}}'),
           msrepl.merge_colv(m.colv, me), coalesce(m.writer, me), case when not c.left_it then r."row" end,
           c.left_it and r.rowguid is not null
    from concerned as c
    left join {metadata} as m on m.rowguid = c.rowguid
    left join {read}(array(select d.rowguid from concerned as d)) as r on r.rowguid = c.rowguid
    where r.rowguid is not null or m.source is distinct from peer.replnickname
    order by c.rowguid;
{path_is_kept}
end
$msrepl$;
alter function {function}(int8, int8) owner to {owner};
revoke all on function {function}(int8, int8) from public;
comment on function {function}(int8, int8) is {comment};
