-- msrepl.merge_touch_partition: makes rows that do not belong to a partition leave it again, and sends
-- the others again.
-- called by: msrepl.merge_touch_mappings; twopc.drivers.merge.partitions
-- tables:    msrepl.msmerge_*_partition_mappings, msrepl.msmerge_genhistory
-- holes:     owner
--
-- This is part of the next generation, which the next close creates. comes_again: false: rows that belong to the
-- partition stay as they are.
create or replace function msrepl.merge_touch_partition(tablenick integer, partition integer, guids uuid[], comes_again boolean)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    next_generation constant int8 := (select max(g.generation) + 1 from msrepl.msmerge_genhistory as g);
begin
    update msrepl.msmerge_current_partition_mappings as c set generation = next_generation
    where $4 and c.tablenick = $1 and c.partition_id = $2 and c.rowguid = any ($3);
    insert into msrepl.msmerge_past_partition_mappings as p (tablenick, rowguid, partition_id, generation, reason)
    select $1, u.guid, $2, next_generation, 4 from unnest($3) as u(guid)
    where not exists (
        select from msrepl.msmerge_current_partition_mappings as c
        where c.tablenick = $1 and c.rowguid = u.guid and c.partition_id = $2)
    on conflict (tablenick, rowguid, partition_id) do update set generation = excluded.generation;
    insert into msrepl.msmerge_generation_partition_mappings as m (generation, partition_id, changecount)
    values (next_generation, $2, cardinality($3)) on conflict (partition_id, generation) do nothing;
end
$msrepl$;
alter function msrepl.merge_touch_partition(integer, integer, uuid[], boolean) owner to {owner};
revoke all on function msrepl.merge_touch_partition(integer, integer, uuid[], boolean) from public;
comment on function msrepl.merge_touch_partition(integer, integer, uuid[], boolean)
    is 'Has rows leave a partition again to which they do not belong';
