-- msrepl.merge_lineage_parts: a lineage as it is stored: the own version, the highest, and those of the other replicas.
-- called by: msmerge_take_<artid>, for every row
-- tables:    none
-- holes:     owner
create or replace function msrepl.merge_lineage_parts(
    lineage int8[], replica int8, out own integer, out top integer, out others int8[]
)
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if cardinality(lineage) = 1 and lineage[1] >> 31 <> replica then  -- nearly always
        own := 0; top := lineage[1] & 2147483647; others := lineage;
    else
        select coalesce(max(v.v & 2147483647) filter (where v.v >> 31 = replica), 0), max(v.v & 2147483647),
               coalesce(array_agg(v.v order by v.v) filter (where v.v >> 31 <> replica), '{{}}')
        into own, top, others from unnest(lineage) as v(v);
    end if;
    if top > 2000000000 then  -- no replica counts that far, and applications must be able to continue
        raise exception 'version % is out of range', top using errcode = 'numeric_value_out_of_range';
    end if;
end
$msrepl$;
alter function msrepl.merge_lineage_parts(int8[], int8) owner to {owner};
revoke all on function msrepl.merge_lineage_parts(int8[], int8) from public;
comment on function msrepl.merge_lineage_parts(int8[], int8) is 'A lineage as it is stored';
