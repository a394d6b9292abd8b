-- trg_mssync_back_<table>: writes back what the Publisher stored differently from how it was sent.
-- called by: capture triggers of the subscribed table, send_held
-- tables:    none here; see trg_mssync_store_<table>
-- holes:     function, store, path_is_kept, owner, comment
--
-- It runs in the replica role, so that no trigger takes this for a change of the application: ours would send
-- it, and a user's has seen the row already. Foreign keys were checked at the Publisher. Values that the link
-- has printed are parsed with the settings of the link, whatever those of the application's session are.
create or replace function {function}(stored jsonb) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set session_replication_role = replica
set datestyle = 'ISO' set intervalstyle = 'postgres' set array_nulls = on set xmloption = content
as $msrepl$
begin
    perform {store}($1);
{path_is_kept}end
$msrepl$;
alter function {function}(jsonb) owner to {owner};
revoke all on function {function}(jsonb) from public;
comment on function {function}(jsonb) is {comment};
