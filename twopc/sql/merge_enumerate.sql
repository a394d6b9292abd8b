-- msmerge_enumerate_<artid>: rows of an article that a range of generations changed, for the session's neighbour.
-- called by: merge agents, in the transaction that has closed the last of these generations
-- tables:    the article's part of msrepl.msmerge_metadata, msrepl.msmerge_genhistory; the article's table
-- holes:     function, metadata, read, changed_since, path_is_kept, owner, comment
--
-- What came from the neighbour is not sent back to it. Whether a row is gone is seen in the table: a trigger that
-- deletes the row for which it fires, or puts it back, is recorded before the statement that has fired it.
create or replace function {function}(after int8, upto int8)
returns table (rowguid uuid, gone boolean, lineage int8[], colv int8[], writer int8, "row" text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant int8 := (msrepl.merge_neighbour()).replnickname;
    me constant int8 := (select r.replica from msrepl.msmerge_replica as r);
    seen constant pg_snapshot := (select g.snap from msrepl.msmerge_genhistory as g where g.generation = $1);
    present constant pg_snapshot := (select g.snap from msrepl.msmerge_genhistory as g where g.generation = $2);
begin
    if seen is null or present is null then
        raise exception 'generation % or % is not known here any more (21333)', $1, $2
            using errcode = 'object_not_in_prerequisite_state', hint = 'Subscribe anew.';
    end if;
    return query
    with changed as materialized (
        select m.* from {metadata} as m
        where {changed_since}
          and m.source is distinct from peer
    )
    select c.rowguid, r.rowguid is null,
           case when c.own = 0 then coalesce(c.lineage, '{{}}')
                when c.lineage is null or cardinality(c.lineage) = 0 then array[me << 31 | c.own]
                when cardinality(c.lineage) > 1 then msrepl.merge_lineage(c.lineage, me, c.own)
                when c.lineage[1] < me << 31 then c.lineage || (me << 31 | c.own)
                else (me << 31 | c.own) || c.lineage end,
           msrepl.merge_colv(c.colv, me),
           coalesce(c.writer, me), r."row"
    from changed as c
    left join {read}(array(select d.rowguid from changed as d)) as r on r.rowguid = c.rowguid
    order by c.rowguid;
{path_is_kept}
end
$msrepl$;
alter function {function}(int8, int8) owner to {owner};
revoke all on function {function}(int8, int8) from public;
comment on function {function}(int8, int8) is {comment};
