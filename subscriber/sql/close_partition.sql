-- msrepl.close_partition: lets only agents write a new partition until the table's triggers are created again.
-- called by: ddl_guard
-- tables:    the partition
-- holes:     owner, caller, trigger
--
-- A statement that names the partition fires the statement triggers of the partition and no others. The function
-- has the rights of an administrator, because the partition may belong to any role.
create or replace function msrepl.close_partition(relation regclass, dest_schema text, article text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    execute format(
        'create or replace trigger %I before insert or update or delete or truncate on %s '
        'for each statement execute function msrepl.refuse_partition(%L, %L)', {trigger}, $1, $2, $3);
end
$msrepl$;
alter function msrepl.close_partition(regclass, text, text) owner to {owner};
revoke all on function msrepl.close_partition(regclass, text, text) from public;
grant execute on function msrepl.close_partition(regclass, text, text) to {caller};
comment on function msrepl.close_partition(regclass, text, text) is 'Lets nobody but agents write a new partition';
