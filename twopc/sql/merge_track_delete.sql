-- msmerge_del_<artid>: records the rows that a DELETE has removed.
-- called by: AFTER DELETE trigger of the article's table
-- tables:    transition table deleted; the article's part of msrepl.msmerge_metadata, msrepl.msmerge_floor_<nickname>
-- holes:     function, metadata, tablenick, floor, old_guid, owner, comment
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
    insert into {metadata} as m (tablenick, rowguid, xid, gone, own, top)
    select {tablenick}, {old_guid}, pg_current_xact_id(), true, first_version, first_version
    from deleted as o
    on conflict (rowguid) do update
    set xid = excluded.xid, gone = true, own = m.top + 1, top = m.top + 1, source = null, writer = null;
    return null;
end
$msrepl$;
alter function {function}() owner to {owner};
revoke all on function {function}() from public;
comment on function {function}() is {comment};
