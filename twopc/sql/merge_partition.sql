-- msrepl.merge_partition: returns the partition of these values; a new one is created without rows.
-- called by: twopc.drivers.merge.partitions
-- tables:    msrepl.msmerge_partition_groups
-- holes:     owner
create or replace function msrepl.merge_partition(host text, login text) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    result integer;
begin
    insert into msrepl.msmerge_partition_groups as p (host_name_fn, suser_sname_fn) values ($1, $2)
    on conflict (host_name_fn, suser_sname_fn) do nothing;
    select p.partition_id into result from msrepl.msmerge_partition_groups as p
    where p.host_name_fn is not distinct from $1 and p.suser_sname_fn is not distinct from $2;
    return result;
end
$msrepl$;
alter function msrepl.merge_partition(text, text) owner to {owner};
revoke all on function msrepl.merge_partition(text, text) from public;
comment on function msrepl.merge_partition(text, text) is 'The partition of these values';
