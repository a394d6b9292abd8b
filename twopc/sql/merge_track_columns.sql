-- msmerge_upd_<artid>: records the rows that an UPDATE has changed, and which of their columns.
-- called by: AFTER UPDATE trigger of the article's table
-- tables:    transition tables deleted and inserted; the article's part of msrepl.msmerge_metadata, msrepl.msmerge_floor_<nickname>; pg_constraint
-- holes:     function, metadata, tablenick, floor, old_guid, new_guid, changed, changed_ever, versions, owner, comment
--
-- Nested loops are off: the plan of the join is kept, and one made for few rows would be quadratic for many. If two
-- foreign keys both propagate an update, a row changes twice in one statement, and is recorded once. Other tables do
-- not pay for that. Values are compared as they are stored: under equality 1.0 is 1.00, and a cast to text, for types
-- without equality, is code of the type's author.
create or replace function {function}() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_nestloop = off
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
        insert into {metadata} as m (tablenick, rowguid, xid, gone, own, top, colv)
        select {tablenick}, {new_guid}, pg_current_xact_id(), false, first_version, first_version,
               array[{changed_ever}]
        from inserted as n join deleted as o on {old_guid} operator(pg_catalog.=) {new_guid}
        group by {new_guid}
        on conflict (rowguid) do update
        set xid = excluded.xid, gone = false, own = m.top + 1, top = m.top + 1,
            colv = array[{versions}],
            source = null, writer = null;
    else
        insert into {metadata} as m (tablenick, rowguid, xid, gone, own, top, colv)
        select {tablenick}, {new_guid}, pg_current_xact_id(), false, first_version, first_version,
               array[{changed}]
        from inserted as n join deleted as o on {old_guid} operator(pg_catalog.=) {new_guid}
        on conflict (rowguid) do update
        set xid = excluded.xid, gone = false, own = m.top + 1, top = m.top + 1,
            colv = array[{versions}],
            source = null, writer = null;
    end if;
    return null;
end
$msrepl$;
alter function {function}() owner to {owner};
revoke all on function {function}() from public;
comment on function {function}() is {comment};
