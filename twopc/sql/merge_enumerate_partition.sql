-- msmerge_enumerate_<artid>: rows of a filtered article that a range of generations changed, for the session's neighbour.
-- called by: merge agents, in the transaction that has closed the last of these generations
-- tables:    the article's part of msrepl.msmerge_metadata, msrepl.msmerge_*_partition_mappings,
--            msrepl.msmerge_genhistory; the article's table
-- holes:     function, metadata, tablenick, read, lineage, changed_since, is_heard_of, rows_max, bytes_max, realigns,
--            path_is_kept, owner, comment
--
-- A row of the result is a slice, as for any article. The result contains rows of the neighbour's partition that were
-- changed, rows that have come into it, and rows that have left it (leaves), which the neighbour is to remove. What
-- came from the neighbour is not sent back to it; nor is a row that came into the partition by such a change.
create or replace function {function}(after int8, upto int8) returns table (
    gone boolean, leaves boolean, guids uuid[], gones boolean[], lineages text[], colvs text[], writers int8[], rows text[]
)
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
          and {is_heard_of}
    ), placed as (
        select c.rowguid, k.gone, k.leaves, {lineage} as lineage,
               msrepl.merge_colv(m.colv, me)::text as colv, coalesce(m.writer, me) as writer,
               case when not c.left_it then r."row" end as "row",
               row_number() over w as place, sum(octet_length(r."row")) over w as size
        from concerned as c
        left join {metadata} as m on m.rowguid = c.rowguid
        left join {read}(array(select d.rowguid from concerned as d)) as r on r.rowguid = c.rowguid
        cross join lateral (
            select c.left_it or r.rowguid is null as gone, c.left_it and r.rowguid is not null as leaves) as k
        where (r.rowguid is not null or m.source is distinct from peer.replnickname) and ({realigns} or not k.leaves)
        window w as (partition by k.gone, k.leaves order by c.rowguid rows unbounded preceding)
    )
    select p.gone, p.leaves, array_agg(p.rowguid order by p.rowguid), array_fill(p.gone, array[count(*)::integer]),
           array_agg(p.lineage order by p.rowguid), array_agg(p.colv order by p.rowguid), array_agg(p.writer order by p.rowguid),
           array_agg(p."row" order by p.rowguid)
    from placed as p
    group by p.gone, p.leaves, (p.place - 1) / {rows_max}, p.size / {bytes_max}
    order by p.gone, p.leaves, min(p.place);
{path_is_kept}
end
$msrepl$;
alter function {function}(int8, int8) owner to {owner};
revoke all on function {function}(int8, int8) from public;
comment on function {function}(int8, int8) is {comment};
