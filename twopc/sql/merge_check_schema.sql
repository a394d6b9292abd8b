-- msrepl.merge_check_schema: refuses to continue a session after a schema change, and makes schema changes wait until
-- the transaction ends.
-- called by: merge agents, at the beginning of each transaction that reads or writes rows
-- tables:    msrepl.sysmergeschemachange
-- holes:     owner
--
-- Rows of another shape would count as rows that cannot be written. LOCK TABLE takes no snapshot: what is read
-- afterwards is the result of the change.
create or replace function msrepl.merge_check_schema(version integer) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    held integer;
begin
    lock table msrepl.sysmergeschemachange in access share mode;
    select coalesce(max(s.schemaversion), 0) into held from msrepl.sysmergeschemachange as s;
    if held <> version then
        raise exception 'schema change % was made during the session', held
            using errcode = 'object_not_in_prerequisite_state', hint = 'The next session brings it to the Subscriber.';
    end if;
end
$msrepl$;
alter function msrepl.merge_check_schema(integer) owner to {owner};
revoke all on function msrepl.merge_check_schema(integer) from public;
comment on function msrepl.merge_check_schema(integer) is 'Refuses to go on after the schema has changed';
