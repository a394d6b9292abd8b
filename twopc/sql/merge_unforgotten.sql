-- msrepl.merge_unforgotten: column versions of an incoming row without those that were known here and
-- have been removed.
-- called by: msmerge_take_<artid>
-- tables:    none
-- holes:     owner
--
-- It corresponds to twopc.merge.decision.without_forgotten: read that first. NULL others: nothing is left out.
create or replace function msrepl.merge_unforgotten(colv int8[], lineage int8[], held_lineage int8[], others int8[], lowest integer) returns int8[]
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if colv is null or others is null or lowest = 0 or held_lineage is null or msrepl.merge_covers(lineage, held_lineage) then
        return colv;
    end if;
    return array(
        select case when c.v >> 31 = any (others) and c.v & 2147483647 <= lowest then 0 else c.v end
        from unnest(colv) with ordinality as c(v, place) order by c.place);
end
$msrepl$;
alter function msrepl.merge_unforgotten(int8[], int8[], int8[], int8[], integer) owner to {owner};
revoke all on function msrepl.merge_unforgotten(int8[], int8[], int8[], int8[], integer) from public;
comment on function msrepl.merge_unforgotten(int8[], int8[], int8[], int8[], integer) is 'Column versions without those that are forgotten here';
