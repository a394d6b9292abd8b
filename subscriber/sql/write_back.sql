-- trg_mssync_back_<table>: takes over what the Publisher stored otherwise than it was sent.
-- called by: capture triggers of the subscribed table, send_held
-- tables:    none here; see trg_mssync_store_<table>
-- holes:     function, store, path_is_kept, owner, comment
--
-- In the replica role, so that no trigger takes this for a change of the application's: ours would send it,
-- a user's has seen the row already. Foreign keys were checked at the Publisher.
-- What the link has printed is read as it was meant there, whatever the application's session is set to.
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
