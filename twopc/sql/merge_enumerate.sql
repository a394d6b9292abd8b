-- msmerge_enumerate_<artid>: rows of an article that a range of generations changed, for the session's neighbour.
-- called by: merge agents, in the transaction that has closed the last of these generations
-- tables:    the article's part of msrepl.msmerge_metadata, msrepl.msmerge_genhistory; the article's table
-- holes:     function, metadata, read, lineage, changed_since, rows_max, bytes_max, path_is_kept, owner, comment
--
-- A row of the result is a slice, in arrays, which the neighbour takes as they are: all its rows are deletions, or none
-- is. What came from the neighbour is not sent back to it. Whether a row is deleted is determined from the table: a
-- trigger that deletes the row for which it fires, or restores it, is recorded before the statement that fired it.
create or replace function {function}(after int8, upto int8) returns table (
    gone boolean, leaves boolean, guids uuid[], gones boolean[], lineages text[], colvs text[], writers int8[], rows text[]
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant int8 := (msrepl.merge_neighbour()).replnickname;
    me constant int8 := (select r.replica from msrepl.msmerge_replica as r);
    seen constant pg_snapshot := (select g.snap from msrepl.msmerge_genhistory as g where g.generation = $1);
    present constant pg_snapshot := (select g.snap from msrepl.msmerge_genhistory as g where g.generation = $2);
    changed uuid[];
    part uuid[];
begin
    if seen is null or present is null then
        raise exception 'generation % or % is not known here any more (21333)', $1, $2
            using errcode = 'object_not_in_prerequisite_state', hint = 'Subscribe anew.';
    end if;
    changed := array(
        select m.rowguid from {metadata} as m
        where {changed_since}
          and m.source is distinct from peer
        order by m.rowguid);
    for low in 1 .. cardinality(changed) by {rows_max} loop
        part := changed[low : low + {rows_max} - 1];
        return query
        select p.gone, false, array_agg(p.rowguid order by p.rowguid), array_fill(p.gone, array[count(*)::integer]),
               array_agg(p.lineage order by p.rowguid), array_agg(p.colv order by p.rowguid),
               array_agg(p.writer order by p.rowguid), array_agg(p."row" order by p.rowguid)
        from (
            select m.rowguid, r.rowguid is null as gone, coalesce(m.writer, me) as writer, r."row",
                   {lineage} as lineage,
                   case when m.colv is not null then array(
                       select case when c.v between 1 and 2147483647 then me << 31 | c.v else c.v end
                       from unnest(m.colv) with ordinality as c(v, place) order by c.place) end::text as colv,
                   sum(octet_length(r."row")) over (
                       partition by r.rowguid is null order by m.rowguid rows unbounded preceding) as size
            from {metadata} as m
            left join {read}(part) as r on r.rowguid = m.rowguid
            where m.rowguid = any (part)
        ) as p
        group by p.gone, p.size / {bytes_max}
        order by p.gone, p.size / {bytes_max};
{path_is_kept}
    end loop;
end
$msrepl$;
alter function {function}(int8, int8) owner to {owner};
revoke all on function {function}(int8, int8) from public;
comment on function {function}(int8, int8) is {comment};
