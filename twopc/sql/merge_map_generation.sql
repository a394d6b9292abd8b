-- msrepl.merge_map_generation: records for which partitions a generation contains anything.
-- called by: msrepl.merge_close
-- tables:    msrepl.msmerge_*_partition_mappings, msrepl.msmerge_metadata
-- holes:     owner
--
-- A row that was changed and has come into a partition, or has left it, counts twice.
create or replace function msrepl.merge_map_generation(generation int8, seen pg_snapshot) returns void
language sql
set search_path = pg_catalog, pg_temp set plan_cache_mode = force_custom_plan
as $msrepl$
    with changed as materialized (
        select m.tablenick, m.rowguid from msrepl.msmerge_metadata as m
        where m.xid >= pg_snapshot_xmin($2) and not pg_visible_in_snapshot(m.xid, $2)
    ), concerned as (
        select c.tablenick, c.rowguid, c.partition_id
        from changed as m join msrepl.msmerge_current_partition_mappings as c
            on c.tablenick = m.tablenick and c.rowguid = m.rowguid
      union all
        select c.tablenick, c.rowguid, c.partition_id
        from msrepl.msmerge_current_partition_mappings as c where c.generation = $1
      union all
        select p.tablenick, p.rowguid, p.partition_id
        from msrepl.msmerge_past_partition_mappings as p where p.generation = $1
      union all
        select m.tablenick, m.rowguid, -1
        from changed as m
        where m.tablenick not in (
            select a.nickname from msrepl.sysmergearticles as a join msrepl.sysmergepartitioninfo as i on i.artid = a.artid)
    )
    insert into msrepl.msmerge_generation_partition_mappings as m (generation, partition_id, changecount)
    select $1, c.partition_id, count(*) from concerned as c group by c.partition_id
    on conflict (partition_id, generation) do update set changecount = excluded.changecount
$msrepl$;
alter function msrepl.merge_map_generation(int8, pg_snapshot) owner to {owner};
revoke all on function msrepl.merge_map_generation(int8, pg_snapshot) from public;
comment on function msrepl.merge_map_generation(int8, pg_snapshot) is 'Notes for which partitions a generation holds anything';
