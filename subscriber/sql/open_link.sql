-- msrepl.open_link: opens the link of this session, or opens it again.
-- called by: ship_again, fetch_generated, at the first use of the link in a session
-- tables:    none
-- holes:     owner, link, server
--
-- The connection is named and persistent: one per session that writes. Its application_name lets the wait
-- graph join it to this backend.
create or replace function msrepl.open_link() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    reason text;
begin
    if {link} = any (msrepl_link.dblink_get_connections()) then
        perform msrepl_link.dblink_disconnect({link});
    end if;
    perform msrepl_link.dblink_connect({link}, {server});
    perform msrepl_link.dblink_exec({link}, 'set application_name = ' || quote_literal({application_name} || ' ' || pg_backend_pid()));
exception when sqlclient_unable_to_establish_sqlconnection or connection_failure or connection_does_not_exist then
    get stacked diagnostics reason = pg_exception_detail;
    raise exception 'the Publisher cannot be reached over the link: %', coalesce(nullif(reason, ''), sqlerrm)
        using errcode = 'sqlclient_unable_to_establish_sqlconnection',
              detail = json_build_object('kind', 'publisher_unreachable', 'number', 21054)::text,
              hint = 'Nothing was changed at either site. Try again when the Publisher is up.';
end
$msrepl$;
alter function msrepl.open_link() owner to {owner};
revoke all on function msrepl.open_link() from public;
comment on function msrepl.open_link() is 'Opens the link of this session to the Publisher';
