-- msrepl.fetch_stored: fetches, in a separate message, what the Publisher stored differently from
-- how it was sent.
-- called by: capture triggers after a call was repeated, send_held
-- tables:    none
-- holes:     owner
create or replace function msrepl.fetch_stored() returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    return msrepl.query_link($query$select current_setting('msrepl.stored', true)$query$);
end
$msrepl$;
alter function msrepl.fetch_stored() owner to {owner};
revoke all on function msrepl.fetch_stored() from public;
comment on function msrepl.fetch_stored() is 'What the Publisher stored otherwise than it was sent';
