-- msrepl.fetch_stored: what the Publisher stored otherwise than it was sent, asked for on its own.
-- called by: capture triggers after a call was repeated, send_held
-- tables:    none
-- holes:     owner, link
create or replace function msrepl.fetch_stored() returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    stored text;
begin
    select t.stored into stored
    from msrepl_link.dblink({link}, $query$select current_setting('msrepl.stored', true)$query$) as t(stored text);
    return stored;
exception
    when query_canceled then
        perform msrepl.drain_link();
        raise;
end
$msrepl$;
alter function msrepl.fetch_stored() owner to {owner};
revoke all on function msrepl.fetch_stored() from public;
comment on function msrepl.fetch_stored() is 'What the Publisher stored otherwise than it was sent';
