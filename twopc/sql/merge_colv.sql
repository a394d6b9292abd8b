-- msrepl.merge_colv: column versions as other replicas read them.
-- called by: code that reads msrepl.msmerge_metadata
-- tables:    none
-- holes:     owner
create or replace function msrepl.merge_colv(colv int8[], replica int8) returns int8[]
language sql immutable strict
set search_path = pg_catalog, pg_temp
as $msrepl$
    select array(
        select case when c.v between 1 and 2147483647 then replica << 31 | c.v else c.v end
        from unnest(colv) with ordinality as c(v, place) order by c.place)
$msrepl$;
alter function msrepl.merge_colv(int8[], int8) owner to {owner};
revoke all on function msrepl.merge_colv(int8[], int8) from public;
comment on function msrepl.merge_colv(int8[], int8) is 'Column versions, each with the number of its replica';
