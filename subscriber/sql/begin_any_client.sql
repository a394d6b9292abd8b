-- msrepl.begin_any_client: makes a client's own transaction a global transaction at its first captured change.
-- called by: name_transaction
-- tables:    msrepl.any_client
-- holes:     owner, link
--
-- Its name is rolled back with the savepoint in which the change was made, as is the branch marker; the next
-- change then gets another name, and the Publisher's transaction begins anew. After RESET ALL the marker with the
-- first name still exists, and the caller refuses a second one in the same transaction.
--
-- The resolver ends a link that a rollback has left in a transaction, under the advisory lock (1836282472, pid of
-- this session). A transaction that has begun shares the lock and keeps the link. If it cannot get the lock,
-- because the link is being ended or an unrelated session holds the lock, it opens a new link.
create or replace function msrepl.begin_any_client(table_name text) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    gid text;
begin
    select 'twopc:' || a.coordinator || ':' || a.epoch || ':' || nextval('msrepl.any_client_sequence') into gid
    from msrepl.any_client as a;
    if gid is null then
        perform msrepl.raise_uncoordinated($1);
    end if;
    perform set_config('msrepl.gid', gid, true);
    if not pg_try_advisory_xact_lock_shared(1836282472, pg_backend_pid())
        and {link} = any (msrepl_link.dblink_get_connections())
    then
        perform msrepl_link.dblink_disconnect({link});
    end if;
    return gid;
end
$msrepl$;
alter function msrepl.begin_any_client(text) owner to {owner};
revoke all on function msrepl.begin_any_client(text) from public;
comment on function msrepl.begin_any_client(text) is 'Makes a client''s own transaction a global one';
