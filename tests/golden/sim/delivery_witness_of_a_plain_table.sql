-- msrepl.<function>: records what an agent does to one row of a subscribed table.
-- called by: the trigger of witness_trigger.sql
-- tables:    msrepl.delivery_witness
-- holes:     function, source_schema, source_object, new_key, old_key, new_version, old_version
--
-- Rows that a call of a routine changes are not recorded: the call itself is (witness_call.sql).
create function "msrepl"."delivery_witness_1"() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if current_setting('msrepl.witnessed_call', true) = 'on' then
        return null;
    end if;
    if tg_op = 'DELETE' then
        insert into msrepl.delivery_witness (source_schema, source_object, operation, key, version)
        values ('public', 't', 'del', array[pg_catalog.format('%s', old."id")], null);
    else
        insert into msrepl.delivery_witness (source_schema, source_object, operation, key, version)
        values ('public', 't', case tg_op when 'INSERT' then 'ins' else 'upd' end, array[pg_catalog.format('%s', new."id")], null);
    end if;
    return null;
end
$msrepl$;
revoke all on function "msrepl"."delivery_witness_1"() from public;
comment on function "msrepl"."delivery_witness_1"() is 'Notes what an agent does here, for an audit';

-- The trigger that records changes of a subscribed table: for agents only, after all other triggers.
-- called by: twopc audit --witness install
-- tables:    the subscribed table
-- holes:     trigger, table, function
create trigger "~~delivery_witness" after insert or update or delete on "public"."t"
    for each row execute function "msrepl"."delivery_witness_1"();
alter table "public"."t" enable replica trigger "~~delivery_witness";
