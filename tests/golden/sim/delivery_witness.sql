-- msrepl.delivery_witness: what agents have done at this Subscriber, one row for each row that they changed.
-- called by: the function of witness_function.sql writes it; twopc audit reads it
-- tables:    itself
-- holes:     none
--
-- operation  ins, upd, del; call; since: key is the position that had been delivered when the witness of the
--            table was installed, and for a routine also the snapshot, which tells the transactions that had
--            ended by then
-- key        of the row after the change, or of a deleted row, as text; of a call, which concerns no row,
--            md5 of its command
-- version    the row version, null if the table has none
create table if not exists msrepl.delivery_witness (
    id bigint generated always as identity primary key,
    xid xid8 not null default pg_current_xact_id(),
    source_schema text not null,
    source_object text not null,
    operation text not null,
    key text[] not null,
    version text,
    at timestamptz not null default clock_timestamp()
);
revoke all on msrepl.delivery_witness from public;
comment on table msrepl.delivery_witness is 'What agents have done here, noted for an audit';

-- msrepl.<function>: records what an agent does to one row of a subscribed table.
-- called by: the trigger of witness_trigger.sql
-- tables:    msrepl.delivery_witness
-- holes:     function, source_schema, source_object, new_key, old_key, new_version, old_version
--
-- Rows that a call of a routine changes are not recorded: the call itself is (witness_call.sql).
create function "msrepl"."delivery_witness_7"() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if current_setting('msrepl.witnessed_call', true) = 'on' then
        return null;
    end if;
    if tg_op = 'DELETE' then
        insert into msrepl.delivery_witness (source_schema, source_object, operation, key, version)
        values ('Sales', 'the "order"''s line', 'del', array[pg_catalog.format('%s', old."n o"), pg_catalog.format('%s', old."Id")], pg_catalog.format('%s', old."msrepl_tran_version"));
    else
        insert into msrepl.delivery_witness (source_schema, source_object, operation, key, version)
        values ('Sales', 'the "order"''s line', case tg_op when 'INSERT' then 'ins' else 'upd' end, array[pg_catalog.format('%s', new."n o"), pg_catalog.format('%s', new."Id")], pg_catalog.format('%s', new."msrepl_tran_version"));
    end if;
    return null;
end
$msrepl$;
revoke all on function "msrepl"."delivery_witness_7"() from public;
comment on function "msrepl"."delivery_witness_7"() is 'Notes what an agent does here, for an audit';

-- The trigger that records changes of a subscribed table: for agents only, after all other triggers.
-- called by: twopc audit --witness install
-- tables:    the subscribed table
-- holes:     trigger, table, function
create trigger "~~delivery_witness" after insert or update or delete on "Sales"."the ""order""'s line"
    for each row execute function "msrepl"."delivery_witness_7"();
alter table "Sales"."the ""order""'s line" enable replica trigger "~~delivery_witness";
