-- msrepl.merge_schema_changes: the schema changes that this node has made, in order.
-- called by: merge agents, at the beginning of a session
-- tables:    msrepl.sysmergeschemachange
-- holes:     owner
create or replace function msrepl.merge_schema_changes()
returns table (
    version integer, guid uuid, artid uuid, kind text, column_name text, number integer, type text, column_default text
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    perform msrepl.merge_neighbour();
    return query
    select s.schemaversion, s.schemaguid, s.artid, s.schematype, s.column_name, s.column_number, s.column_type, s.column_default
    from msrepl.sysmergeschemachange as s order by s.schemaversion;
end
$msrepl$;
alter function msrepl.merge_schema_changes() owner to {owner};
revoke all on function msrepl.merge_schema_changes() from public;
comment on function msrepl.merge_schema_changes() is 'The schema changes that this node has made';
