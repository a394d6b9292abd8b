-- msrepl.merge_refuse_uninitialised: refuses changes of a table until all its files have been delivered (20092).
-- called by: BEFORE STATEMENT triggers of tables that are being initialised
-- tables:    none
-- holes:     owner
create or replace function msrepl.merge_refuse_uninitialised() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    raise exception 'table %.% is being initialised, and cannot be changed yet (20092)', tg_table_schema, tg_table_name
        using errcode = 'object_not_in_prerequisite_state',
              hint = 'Subscribe again: the delivery of the snapshot goes on at the next file.';
end
$msrepl$;
alter function msrepl.merge_refuse_uninitialised() owner to {owner};
revoke all on function msrepl.merge_refuse_uninitialised() from public;
comment on function msrepl.merge_refuse_uninitialised() is 'Refuses changes of a table that is being initialised';
