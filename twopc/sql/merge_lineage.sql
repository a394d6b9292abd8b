-- msrepl.merge_lineage: the whole lineage of a row, this database's own version among it.
-- called by: whatever reads msrepl.msmerge_metadata
-- tables:    none
-- holes:     owner
create or replace function msrepl.merge_lineage(lineage int8[], replica int8, own integer) returns int8[]
language sql immutable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select array(
        select v from unnest(case when own > 0 then array[replica << 31 | own] || coalesce(lineage, '{{}}')
                                  else coalesce(lineage, '{{}}') end) as v
        order by v)
$msrepl$;
alter function msrepl.merge_lineage(int8[], int8, integer) owner to {owner};
revoke all on function msrepl.merge_lineage(int8[], int8, integer) from public;
comment on function msrepl.merge_lineage(int8[], int8, integer) is 'The versions of all replicas that a row stands on';
