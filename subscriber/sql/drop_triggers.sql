-- msrepl.drop_triggers: drops our triggers of a table and of its partitions.
-- called by: an administrator: subscribing, regenerating, unsubscribing
-- tables:    catalogs; msrepl.msreplication_objects
-- holes:     owner
--
-- It also drops those of tables that no longer belong to a subscribed table: a detached partition keeps its triggers.
create or replace function msrepl.drop_triggers(relation regclass) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    command text;
begin
    for command in
        select format('drop trigger %I on %s', t.tgname, t.tgrelid::regclass)
        from pg_trigger t
        join pg_proc p on p.oid = t.tgfoid and p.pronamespace = 'msrepl'::regnamespace
        join pg_class c on c.oid = t.tgrelid and c.relnamespace <> 'msrepl'::regnamespace
        where t.tgparentid = 0
          and (t.tgrelid = $1 or t.tgrelid in (select b.relid from pg_partition_tree($1) b)
               or not exists (
                   select from msrepl.msreplication_objects o
                   where t.tgrelid = o.objid or t.tgrelid in (select b.relid from pg_partition_tree(o.objid) b)))
    loop
        execute command;
    end loop;
end
$msrepl$;
alter function msrepl.drop_triggers(regclass) owner to {owner};
revoke all on function msrepl.drop_triggers(regclass) from public;
comment on function msrepl.drop_triggers(regclass) is 'Drops our triggers of a table and of its partitions';
