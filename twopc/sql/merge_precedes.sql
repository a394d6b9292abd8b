-- msrepl.merge_precedes: tells whether the second lineage includes all that the first includes, and more.
-- called by: msmerge_take_<artid>, for every row
-- tables:    none
-- holes:     owner
create or replace function msrepl.merge_precedes(one int8[], other int8[]) returns boolean
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    place integer := 1;
begin
    if one = other then
        return false;
    end if;
    for i in 1 .. coalesce(cardinality(one), 0) loop
        while other[place] >> 31 < one[i] >> 31 loop
            place := place + 1;
        end loop;
        if other[place] >> 31 = one[i] >> 31 and other[place] >= one[i] then
            continue;
        end if;
        return false;
    end loop;
    return true;
end
$msrepl$;
alter function msrepl.merge_precedes(int8[], int8[]) owner to {owner};
revoke all on function msrepl.merge_precedes(int8[], int8[]) from public;
comment on function msrepl.merge_precedes(int8[], int8[]) is 'Whether the second lineage knows all that the first knows, and more';
