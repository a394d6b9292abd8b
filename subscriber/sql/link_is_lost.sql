-- msrepl.link_is_lost: tells whether an error means that the link is lost, and the transaction at its other end.
-- called by: ship_again, prepare_branch, fetch_generated
-- tables:    none
-- holes:     owner, link
--
-- dblink takes a name without a connection for a connection string, and fails with any of several errors.
-- The others are the link's own errors (class 08) and those with which a server ends a session.
create or replace function msrepl.link_is_lost(state text) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    return not {link} = any (coalesce(msrepl_link.dblink_get_connections(), array[]::text[]))
        or state ~ '^(08|57P|25P03|25P04)';
end
$msrepl$;
alter function msrepl.link_is_lost(text) owner to {owner};
revoke all on function msrepl.link_is_lost(text) from public;
comment on function msrepl.link_is_lost(text) is 'Whether an error means that the link is gone';
