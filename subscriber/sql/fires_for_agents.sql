-- msrepl.fires_for_agents: tells whether a trigger or rule fires for the rows that an agent changes
-- in a table.
-- called by: msrepl.set_<article>_upd
-- tables:    catalogs
-- holes:     owner, agent
create or replace function msrepl.fires_for_agents(relation regclass) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select exists (select from pg_trigger as g
                   where g.tgenabled in ('A', 'R')
                     and (g.tgrelid = $1 or g.tgrelid in (select p.relid from pg_partition_tree($1) as p)))
        or exists (select from pg_rewrite as r where r.ev_class = $1 and r.ev_enabled in ('A', 'R'))
$msrepl$;
alter function msrepl.fires_for_agents(regclass) owner to {owner};
revoke all on function msrepl.fires_for_agents(regclass) from public;
grant execute on function msrepl.fires_for_agents(regclass) to {agent};
comment on function msrepl.fires_for_agents(regclass)
    is 'Whether a trigger or a rule of the table, or of a partition, is not NOT FOR REPLICATION';
