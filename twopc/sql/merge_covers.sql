-- msrepl.merge_covers: tells whether a lineage includes every version that another includes.
-- called by: msrepl.merge_decide
-- tables:    none
-- holes:     owner
create or replace function msrepl.merge_covers(one int8[], other int8[]) returns boolean
language sql immutable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select not exists (
        select from unnest(other) as o(v)
        where not exists (select from unnest(one) as t(v) where t.v >> 31 = o.v >> 31 and t.v >= o.v))
$msrepl$;
alter function msrepl.merge_covers(int8[], int8[]) owner to {owner};
revoke all on function msrepl.merge_covers(int8[], int8[]) from public;
comment on function msrepl.merge_covers(int8[], int8[]) is 'Whether one lineage knows all that another knows';
