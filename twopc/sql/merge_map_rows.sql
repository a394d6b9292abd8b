-- msmerge_map_<artid>: works out to which partitions rows of an article belong, in the snapshot that a generation is.
-- called by: msrepl.merge_map
-- tables:    the article's part of msrepl.msmerge_metadata, msrepl.msmerge_*_partition_mappings
-- holes:     function, metadata, tablenick, filter, children, path_is_kept, owner, comment
--
-- Incrementally: of rows that were changed since the generation before, and of those that belong where a row belongs
-- that has just come or gone. Returns how many mappings have changed.
create or replace function {function}(generation int8, seen pg_snapshot, is_incremental boolean, whole integer)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    partitions constant integer[] := array(
        select p.partition_id from msrepl.msmerge_partition_groups as p where $4 is null or p.partition_id = $4);
    candidates uuid[];
    count bigint;
begin
    if cardinality(partitions) = 0 then
        return 0;
    end if;
    if is_incremental then
        candidates := array(
            select m.rowguid from {metadata} as m
            where m.xid >= pg_snapshot_xmin(seen) and not pg_visible_in_snapshot(m.xid, seen));
{children}        if cardinality(candidates) = 0 then
            return 0;
        end if;
    end if;
    with belongs as materialized (
        select f.rowguid, f.partition_id from {filter}(candidates, partitions) as f
    ), absent as (
        delete from msrepl.msmerge_current_partition_mappings as c
        where c.tablenick = {tablenick} and c.partition_id = any (partitions)
          and (candidates is null or c.rowguid = any (candidates))
          and not exists (select from belongs as b where b.rowguid = c.rowguid and b.partition_id = c.partition_id)
        returning c.rowguid, c.partition_id
    ), present as (
        insert into msrepl.msmerge_current_partition_mappings as c (tablenick, rowguid, partition_id, generation)
        select {tablenick}, b.rowguid, b.partition_id, $1 from belongs as b
        on conflict (tablenick, rowguid, partition_id) do nothing
        returning c.rowguid, c.partition_id
    ), returned as (
        delete from msrepl.msmerge_past_partition_mappings as p using present as n
        where p.tablenick = {tablenick} and p.rowguid = n.rowguid and p.partition_id = n.partition_id
    ), past as (
        insert into msrepl.msmerge_past_partition_mappings as p (tablenick, rowguid, partition_id, generation, reason)
        select {tablenick}, a.rowguid, a.partition_id, $1,
               case when m.gone then 1 when m.rowguid is not null and not pg_visible_in_snapshot(m.xid, seen) then 2 else 3 end
        from absent as a left join {metadata} as m on m.rowguid = a.rowguid
        on conflict (tablenick, rowguid, partition_id) do update set generation = excluded.generation, reason = excluded.reason
    )
    select (select count(*) from absent) + (select count(*) from present) into count;
{path_is_kept}
    return count;
end
$msrepl$;
alter function {function}(int8, pg_snapshot, boolean, integer) owner to {owner};
revoke all on function {function}(int8, pg_snapshot, boolean, integer) from public;
comment on function {function}(int8, pg_snapshot, boolean, integer) is {comment};
