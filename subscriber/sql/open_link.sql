-- msrepl.open_link: opens the link of this session, or reopens it.
-- called by: ship_again, prepare_again, fetch_generated: at the first use of the link in a session, and after it
--            was lost
-- tables:    pg_foreign_server
-- holes:     owner, link, server, application_name
--
-- The connection is named and persistent: one per session that writes. Its application_name lets the wait graph
-- associate it with this backend; its search path is that of our functions. dblink ignores connect_timeout: a Publisher
-- that accepts the connection and does not answer is waited for until the caller is cancelled.
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
    perform msrepl_link.dblink_exec({link}, 'set search_path = pg_catalog, pg_temp; set application_name = ' || quote_literal({application_name} || ' ' || pg_backend_pid()));
exception when others then
    get stacked diagnostics reason = pg_exception_detail;
    if sqlstate = '2F003' and exists (select from pg_foreign_server where srvname = {server}) then
        reason := 'it did not ask for the password of the link';
    else
        -- libpq's reason is in DETAIL and has several lines
        reason := btrim(regexp_replace(
            concat_ws(': ', nullif(sqlerrm, 'could not establish connection'), nullif(reason, '')), E'\\s+', ' ', 'g'));
    end if;
    raise exception 'the Publisher cannot be reached over the link: %', reason
        using errcode = sqlstate,
              detail = json_build_object('kind', 'publisher_unreachable', 'number', 21054)::text,
              hint = 'Nothing is committed at either site. ' || case
        when reason ~ 'did not ask for the password' then
            'PostgreSQL lets only a superuser link without one: in the Publisher''s pg_hba.conf set the method of the link role to scram-sha-256 instead of trust, and reload it.'
        when reason ~ 'password authentication failed|is not permitted to log in' then
            'The link role or its password was changed at the Publisher: ALTER ROLE it back there, or unsubscribe and subscribe again.'
        when reason ~ 'permission denied for database' then
            'GRANT CONNECT ON DATABASE to the link role at the Publisher.'
        when reason ~ 'database .* does not exist' then
            'The Publisher''s database was dropped or renamed: ALTER SERVER ' || {server} || ' OPTIONS (SET dbname ...), or unsubscribe.'
        when reason ~ 'pg_hba.conf' then
            'Let the link role and this host in by a line of the Publisher''s pg_hba.conf, with scram-sha-256, and reload it.'
        when reason ~ 'could not translate host name' then
            'ALTER SERVER ' || {server} || ' OPTIONS (SET host ...) if the Publisher has moved.'
        when reason ~ 'too many|remaining connection slots' then
            'The Publisher has no connection left: raise max_connections there, or the limit of the link role.'
        when reason ~ 'starting up|shutting down|not yet accepting connections|recovery' then
            'Try again in a moment.'
        when sqlstate !~ '^(08|53|57)' then
            'The link is damaged: unsubscribe and subscribe again.'
        else 'Try again when the Publisher is up.'
    end;
end
$msrepl$;
alter function msrepl.open_link() owner to {owner};
revoke all on function msrepl.open_link() from public;
comment on function msrepl.open_link() is 'Opens the link of this session to the Publisher';
