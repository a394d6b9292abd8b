-- msrepl.reset_link: rolls back what the link has open at the Publisher.
-- called by: the coordinator after a local ROLLBACK; prepare_publisher when nothing is to be prepared
-- tables:    none
-- holes:     owner, link
--
-- An application role may execute it, like prepare_publisher and flush_log. Called at the wrong time,
-- it makes the next statement or the vote fail: both name a savepoint that no longer exists.
create or replace function msrepl.reset_link() returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if {link} = any (msrepl_link.dblink_get_connections()) then
        perform msrepl_link.dblink_exec({link}, 'rollback');
    end if;
exception
    when query_canceled then
        perform msrepl.drain_link();
        raise;
    when others then
        -- a link that cannot even roll back is closed, which ends its transaction
        perform msrepl_link.dblink_disconnect({link});
end
$msrepl$;
alter function msrepl.reset_link() owner to {owner};
revoke all on function msrepl.reset_link() from public;
comment on function msrepl.reset_link() is 'Rolls back what the link has open at the Publisher';
