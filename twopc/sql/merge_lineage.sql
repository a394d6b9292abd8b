-- msrepl.merge_lineage: the whole lineage of a row, including this database's own version.
-- called by: code that reads msrepl.msmerge_metadata
-- tables:    none
-- holes:     owner
create or replace function msrepl.merge_lineage(lineage int8[], replica int8, own integer) returns int8[]
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if coalesce(own, 0) = 0 then
        return coalesce(lineage, '{{}}');
    elsif lineage is null or cardinality(lineage) = 0 then
        return array[replica << 31 | own];
    end if;
    return array(select v.v from unnest(lineage || (replica << 31 | own)) as v(v) order by v.v);
end
$msrepl$;
alter function msrepl.merge_lineage(int8[], int8, integer) owner to {owner};
revoke all on function msrepl.merge_lineage(int8[], int8, integer) from public;
comment on function msrepl.merge_lineage(int8[], int8, integer) is 'The versions of all replicas that a row stands on';
