-- msrepl.drop_triggers: drops our triggers of a table and of its partitions.
-- called by: an administrator: subscribing, regenerating, unsubscribing
-- tables:    catalogs
-- holes:     owner
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
        where t.tgparentid = 0 and (t.tgrelid = $1 or t.tgrelid in (select b.relid from pg_partition_tree($1) b))
    loop
        execute command;
    end loop;
end
$msrepl$;
alter function msrepl.drop_triggers(regclass) owner to {owner};
revoke all on function msrepl.drop_triggers(regclass) from public;
comment on function msrepl.drop_triggers(regclass) is 'Drops our triggers of a table and of its partitions';
