-- msrepl.delivery_witness_note: records a call of a routine.
-- called by: the function of witness_call.sql
-- tables:    msrepl.delivery_witness
-- holes:     none
create or replace function msrepl.delivery_witness_note(taker text, command text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    insert into msrepl.delivery_witness (source_schema, source_object, operation, key)
    values ('msrepl', taker, 'call', array[md5(command)]);
end
$msrepl$;
revoke all on function msrepl.delivery_witness_note(text, text) from public;
comment on function msrepl.delivery_witness_note(text, text) is 'Notes a call, for an audit';
