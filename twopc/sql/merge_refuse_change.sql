-- msrepl.merge_refuse_change: refuses a change of an application to a table that may be changed only at the Publisher.
-- called by: BEFORE triggers of articles at Subscribers that may not change them
-- tables:    none
-- holes:     owner
--
-- Changes of an agent are accepted; those of a user's trigger that fires then are at a deeper level, and are
-- refused like any others.
create or replace function msrepl.merge_refuse_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if pg_trigger_depth() = 1 and current_setting('session_replication_role') = 'replica' then
        return case tg_op when 'DELETE' then old else new end;
    end if;
    raise exception 'table %.% is changed at the Publisher alone (20063)', tg_table_schema, tg_table_name
        using errcode = 'object_not_in_prerequisite_state',
              hint = 'Change the row at the Publisher, and wait for the next session.';
end
$msrepl$;
alter function msrepl.merge_refuse_change() owner to {owner};
revoke all on function msrepl.merge_refuse_change() from public;
comment on function msrepl.merge_refuse_change() is 'Refuses changes to a table that is changed at the Publisher alone';
