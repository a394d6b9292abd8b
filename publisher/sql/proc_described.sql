-- msrepl.proc_described: the arguments of a routine, as sysprocarticles keeps them.
-- called by: twopc.publisher.proc_execution, proc_redefined
-- tables:    catalogs
-- holes:     owner, pinned
create or replace function msrepl.proc_described(routine oid) returns jsonb
language sql stable
set search_path = pg_catalog, pg_temp
{pinned}
as $msrepl$
    select coalesce(jsonb_agg(jsonb_build_object(
               'name', coalesce(p.proargnames[u.place], ''),
               'mode', coalesce(p.proargmodes[u.place]::text, 'i'),
               'type', format_type(u.type, null)) order by u.place), '[]')
    from pg_proc as p
    cross join unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality as u(type, place)
    where p.oid = routine
$msrepl$;
alter function msrepl.proc_described(oid) owner to {owner};
revoke all on function msrepl.proc_described(oid) from public;
comment on function msrepl.proc_described(oid) is 'The arguments of a routine, as sysprocarticles keeps them';
