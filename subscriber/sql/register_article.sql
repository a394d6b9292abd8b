-- The row of a subscribed table: what is needed to make its calls, and to remove the subscription.
-- called by: twopc.subscriber.subscription, the script of a subscription
-- tables:    msrepl.msreplication_objects
-- holes:     table, schema, article, created_table, added_version, added_keys, routines, parents, calls,
--            write_back
insert into msrepl.msreplication_objects as o
    (objid, dest_schema, article, created_table, added_version, added_keys, structure, routines, fingerprints,
     parents, sync_calls, write_back)
select {table}::regclass, {schema}, {article}, {created_table}, {added_version}, {added_keys},
       msrepl.table_structure({table}::regclass),
       array(select p.oid from pg_proc p
             where p.pronamespace = 'msrepl'::regnamespace and p.proname::text = any ({routines})),
       msrepl.fingerprints({table}::regclass),
       array(select to_regclass(t)::oid from unnest({parents}) as t), {calls}::jsonb, {write_back}
on conflict (objid) do update
set dest_schema = excluded.dest_schema, article = excluded.article, structure = excluded.structure,
    routines = excluded.routines, fingerprints = excluded.fingerprints, parents = excluded.parents,
    sync_calls = excluded.sync_calls, write_back = excluded.write_back, stale = null;
select msrepl.deactivate(null);
