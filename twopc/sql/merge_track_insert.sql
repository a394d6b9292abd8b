-- msmerge_ins_<artid>: records the rows that an INSERT has added.
-- called by: AFTER INSERT trigger of the article's table
-- tables:    transition table inserted; the article's part of msrepl.msmerge_metadata, msrepl.msmerge_floor_<nickname>
-- holes:     function, metadata, tablenick, floor, new_guid, first, again, owner, comment
--
-- At the first level of a session in the replica role, the writer is an agent, which writes the metadata too. What a
-- user's trigger does there is at a deeper level, and is a change like others. The versions of a row that was deleted
-- before continue above that of its deletion.
create or replace function {function}() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    first_version integer;
begin
    if pg_trigger_depth() = 1 and current_setting('session_replication_role') = 'replica' then
        return null;
    end if;
    first_version := coalesce(pg_sequence_last_value({floor}::regclass), 0) + 1;
    insert into {metadata} as m (tablenick, rowguid, xid, gone, own, top, colv)
    select {tablenick}, {new_guid}, pg_current_xact_id(), false, first_version, first_version, {first}
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
