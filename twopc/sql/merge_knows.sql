-- msrepl.merge_knows: tells whether a generation was closed here, by its number and GUID.
-- called by: merge agents, at the beginning of a session
-- tables:    msrepl.msmerge_genhistory
-- holes:     owner
--
-- A neighbour has it: if it is unknown here, this database was restored to an earlier state.
create or replace function msrepl.merge_knows(generation int8, guid uuid) returns boolean
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    select exists (select from msrepl.msmerge_genhistory as g where g.generation = $1 and g.guidsrc = $2)
$msrepl$;
alter function msrepl.merge_knows(int8, uuid) owner to {owner};
revoke all on function msrepl.merge_knows(int8, uuid) from public;
comment on function msrepl.merge_knows(int8, uuid) is 'Whether a generation was closed here';
