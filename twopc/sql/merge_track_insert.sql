-- msmerge_ins_<artid>: records the rows that an INSERT has brought.
-- called by: AFTER INSERT trigger of the article's table
-- tables:    transition table inserted; the article's part of msrepl.msmerge_metadata
-- holes:     function, metadata, tablenick, rowguid, first, again, owner, comment
--
-- At the first level of a session in the replica role it is an agent that writes: it brings the metadata too. What
-- a trigger of the user's does there is at a deeper level, and is a change like others. A row that was deleted
-- before goes on above the version of its deletion.
create or replace function {function}() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $msrepl$
begin
    if pg_trigger_depth() = 1 and current_setting('session_replication_role') = 'replica' then
        return null;
    end if;
    insert into {metadata} as m (tablenick, rowguid, xid, gone, own, top, colv)
    select {tablenick}, n.{rowguid}, pg_current_xact_id(), false, 1, 1, {first}
    from inserted as n
    on conflict (rowguid) do update
    set xid = excluded.xid, gone = false, own = m.top + 1, top = m.top + 1, colv = {again},
        source = null, writer = null;
    return null;
end
$msrepl$;
alter function {function}() owner to {owner};
revoke all on function {function}() from public;
comment on function {function}() is {comment};
