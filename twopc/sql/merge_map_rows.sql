-- msmerge_map_<artid>: determines to which partitions rows of an article belong, in the snapshot that is a generation.
-- called by: msrepl.merge_map
-- tables:    the article's part of msrepl.msmerge_metadata, msrepl.msmerge_*_partition_mappings
-- holes:     function, metadata, tablenick, belongs, children, path_is_kept, owner, comment
--
-- Incrementally: of rows that were changed since the previous generation, and of those whose parent's row has just come
-- into a partition or left one, or was changed. Both sides are grouped, not joined, and the differences are kept in
-- arrays: the planner knows their length, as long as it plans each execution, but not that of a filter's result.
-- Parallel workers are off: each would read the array of rows again, which took as long as everything else. Returns how
-- many mappings have changed.
create or replace function {function}(generation int8, seen pg_snapshot, is_incremental boolean, whole integer)
returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp set plan_cache_mode = force_custom_plan set max_parallel_workers_per_gather = 0
as $msrepl$
#variable_conflict use_column
declare
    partitions constant integer[] := array(
        select p.partition_id from msrepl.msmerge_partition_groups as p where $4 is null or p.partition_id = $4);
    candidates uuid[];
    absent uuid[];
    absent_from integer[];
    present uuid[];
    present_in integer[];
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
    select array_agg(d.rowguid) filter (where d.is_held), array_agg(d.partition_id) filter (where d.is_held),
           array_agg(d.rowguid) filter (where not d.is_held), array_agg(d.partition_id) filter (where not d.is_held)
    into absent, absent_from, present, present_in
    from (
        select u.rowguid, u.partition_id, bool_or(u.is_held) as is_held
        from (
            select c.rowguid, c.partition_id, true as is_held
            from msrepl.msmerge_current_partition_mappings as c
            where c.tablenick = {tablenick} and c.partition_id = any (partitions)
              and (candidates is null or c.rowguid = any (candidates))
          union all
            select f.rowguid, f.partition_id, false from {belongs}(candidates, partitions) as f where f.failure is null) as u
        group by u.rowguid, u.partition_id having count(*) = 1) as d;
{path_is_kept}
    if absent is not null then
        delete from msrepl.msmerge_current_partition_mappings as c
        using unnest(absent, absent_from) as a(rowguid, partition_id)
        where c.tablenick = {tablenick} and c.rowguid = a.rowguid and c.partition_id = a.partition_id;
        insert into msrepl.msmerge_past_partition_mappings as p (tablenick, rowguid, partition_id, generation, reason)
        select {tablenick}, a.rowguid, a.partition_id, $1,
               case when m.gone then 1 when m.rowguid is not null and not pg_visible_in_snapshot(m.xid, seen) then 2 else 3 end
        from unnest(absent, absent_from) as a(rowguid, partition_id)
        left join {metadata} as m on m.rowguid = a.rowguid
        on conflict (tablenick, rowguid, partition_id) do update set generation = excluded.generation, reason = excluded.reason;
    end if;
    if present is not null then
        insert into msrepl.msmerge_current_partition_mappings as c (tablenick, rowguid, partition_id, generation)
        select {tablenick}, n.rowguid, n.partition_id, $1 from unnest(present, present_in) as n(rowguid, partition_id);
        delete from msrepl.msmerge_past_partition_mappings as p
        using unnest(present, present_in) as n(rowguid, partition_id)
        where p.tablenick = {tablenick} and p.rowguid = n.rowguid and p.partition_id = n.partition_id;
    end if;
    return coalesce(cardinality(absent), 0) + coalesce(cardinality(present), 0);
end
$msrepl$;
alter function {function}(int8, pg_snapshot, boolean, integer) owner to {owner};
revoke all on function {function}(int8, pg_snapshot, boolean, integer) from public;
comment on function {function}(int8, pg_snapshot, boolean, integer) is {comment};
