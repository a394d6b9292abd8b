-- msrepl.begin_any_client: makes a client's own transaction a global one, at its first captured change.
-- called by: capture triggers, send_held, where no coordinator has named the transaction
-- tables:    msrepl.any_client
-- holes:     owner
--
-- Its name is rolled back with the savepoint in which the change was made, as is the branch marker; the next
-- change then gets another, and the Publisher's transaction begins anew. After RESET ALL the marker of the
-- first name is still there, and a second one in the same transaction is refused by its caller.
--
-- A client that has said SET CONSTRAINTS ALL IMMEDIATE before is asked at its end all the same.
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
    perform set_config('msrepl.any_client', 'yes', true);
    set constraints msrepl.trg_mssync_guard_branches deferred;
    return gid;
end
$msrepl$;
alter function msrepl.begin_any_client(text) owner to {owner};
revoke all on function msrepl.begin_any_client(text) from public;
comment on function msrepl.begin_any_client(text) is 'Makes a client''s own transaction a global one';
