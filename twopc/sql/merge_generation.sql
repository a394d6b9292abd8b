-- msrepl.merge_generation: returns the generation to which a change belongs.
-- called by: msrepl.msmerge_contents, msrepl.msmerge_tombstone
-- tables:    msrepl.msmerge_genhistory
-- holes:     owner
--
-- A change that is in no closed generation is in the open one, which has the next number.
create or replace function msrepl.merge_generation(changed xid8) returns int8
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select coalesce(min(g.generation) filter (where pg_visible_in_snapshot(changed, g.snap)),
                    max(g.generation) + 1)
    from msrepl.msmerge_genhistory as g
$msrepl$;
alter function msrepl.merge_generation(xid8) owner to {owner};
revoke all on function msrepl.merge_generation(xid8) from public;
comment on function msrepl.merge_generation(xid8) is 'The generation that a transaction''s changes are in';
