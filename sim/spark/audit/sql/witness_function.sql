-- msrepl.<function>: records what an agent does to one row of a subscribed table.
-- called by: the trigger of witness_trigger.sql
-- tables:    msrepl.delivery_witness
-- holes:     function, source_schema, source_object, new_key, old_key, new_version, old_version
--
-- Rows that a call of a routine changes are not recorded: the call itself is (witness_call.sql).
create function {function}() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if current_setting('msrepl.witnessed_call', true) = 'on' then
        return null;
    end if;
    if tg_op = 'DELETE' then
        insert into msrepl.delivery_witness (source_schema, source_object, operation, key, version)
        values ({source_schema}, {source_object}, 'del', {old_key}, {old_version});
    else
        insert into msrepl.delivery_witness (source_schema, source_object, operation, key, version)
        values ({source_schema}, {source_object}, case tg_op when 'INSERT' then 'ins' else 'upd' end, {new_key}, {new_version});
    end if;
    return null;
end
$msrepl$;
revoke all on function {function}() from public;
comment on function {function}() is 'Notes what an agent does here, for an audit';
