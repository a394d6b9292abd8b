-- msrepl.merge_refuse_rewritten: refuses to continue if a merged table was rewritten after the transaction's snapshot.
-- called by: msrepl.merge_map; merge agents and the Snapshot Agent, in the REPEATABLE READ transaction that has closed a
--            generation, after they have read or locked the tables
-- tables:    msrepl.sysmergearticles, catalogs
-- holes:     owner
--
-- A table that ALTER TABLE has rewritten appears empty in an older snapshot: rows would count as deleted, or as outside
-- every partition. LOCK TABLE before the snapshot would need the right to read the table. The query sees the file of the
-- table in the snapshot, pg_relation_filenode the present one; a table that was read stays locked until the transaction
-- ends. VACUUM FULL and CLUSTER keep older rows visible, and are refused all the same.
create or replace function msrepl.merge_refuse_rewritten() returns void
language plpgsql stable security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    rewritten text;
begin
    select format('%I.%I', a.source_schema, a.source_object) into rewritten
    from msrepl.sysmergearticles as a join pg_class as c on c.oid = a.objid
    where pg_relation_filenode(c.oid) <> c.relfilenode
    order by a.nickname limit 1;
    if found then
        raise exception 'table % was rewritten while its rows were to be read', rewritten
            using errcode = 'serialization_failure', hint = 'Run it again.';
    end if;
end
$msrepl$;
alter function msrepl.merge_refuse_rewritten() owner to {owner};
revoke all on function msrepl.merge_refuse_rewritten() from public;
comment on function msrepl.merge_refuse_rewritten() is 'Refuses to read tables that were rewritten since the snapshot';
