-- msmerge_upd_<artid>: records the rows that an UPDATE has changed, where rows are tracked as a whole.
-- called by: AFTER UPDATE trigger of the article's table
-- tables:    transition table inserted; the article's part of msrepl.msmerge_metadata, msrepl.msmerge_floor_<nickname>; pg_constraint
-- holes:     function, metadata, tablenick, floor, new_guid, owner, comment
--
-- If two foreign keys both propagate an update, a row changes twice in one statement, and is recorded once. Other
-- tables do not pay for that: grouping is a third of the cost of recording.
create or replace function {function}() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $msrepl$
declare
    first_version integer;
begin
    if pg_trigger_depth() = 1 and current_setting('session_replication_role') = 'replica' then
        return null;
    end if;
    first_version := coalesce(pg_sequence_last_value({floor}::regclass), 0) + 1;
    if exists (select from pg_constraint as c where c.conrelid = tg_relid and c.contype = 'f'
               and (c.confupdtype in ('c', 'n', 'd') or c.confdeltype in ('n', 'd'))) then
        insert into {metadata} as m (tablenick, rowguid, xid, gone, own, top)
        select {tablenick}, {new_guid}, pg_current_xact_id(), false, first_version, first_version
        from inserted as n
        group by {new_guid}
        on conflict (rowguid) do update
        set xid = excluded.xid, gone = false, own = m.top + 1, top = m.top + 1, source = null, writer = null;
    else
        insert into {metadata} as m (tablenick, rowguid, xid, gone, own, top)
        select {tablenick}, {new_guid}, pg_current_xact_id(), false, first_version, first_version
        from inserted as n
        on conflict (rowguid) do update
        set xid = excluded.xid, gone = false, own = m.top + 1, top = m.top + 1, source = null, writer = null;
    end if;
    return null;
end
$msrepl$;
alter function {function}() owner to {owner};
revoke all on function {function}() from public;
comment on function {function}() is {comment};
