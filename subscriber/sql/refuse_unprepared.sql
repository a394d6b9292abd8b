-- msrepl.refuse_unprepared: refuses to commit a transaction here without its branch at the Publisher.
-- called by: the deferred trigger of msrepl.branch_marker, at PREPARE TRANSACTION or COMMIT
-- tables:    msrepl.branch_marker, msrepl.any_client
-- holes:     owner, own_branch, sites
--
-- A session that names a global transaction and then commits as usual would have the change at this site only: what
-- the link has open at the Publisher is rolled back.
--
-- Any client: the Publisher's branch is prepared here, and the COMMIT that continues is the decision. A later
-- failure leaves the branch prepared without a decision; the resolver rolls it back.
--
-- SET CONSTRAINTS ALL IMMEDIATE runs this function too early to tell. The first turn in a message therefore only
-- moves to the end of the queue, behind every deferred trigger that was waiting too; the next turn in the same
-- message is at the transaction's end. Within a function, SET CONSTRAINTS may be executed several times in one
-- message. Then the context decides: at a transaction's end it contains nothing but a procedure's COMMIT. If
-- messages are in another language, that COMMIT is not recognised, so after some turns the end is assumed whatever
-- the context. If it is assumed too early, a coordinator's transaction is refused, and any client can change nothing
-- more. Within a savepoint it is not the end.
--
-- A resolver that sleeps holds the advisory lock 1836282471 and is notified; one that is awake cannot fall asleep
-- until our commit is visible. If every transaction used NOTIFY, only one at a time could commit on the whole server.
create or replace function msrepl.refuse_unprepared() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $msrepl$
#variable_conflict use_column
declare
    here tid := nullif(current_setting('msrepl.marker', true), '')::tid;
    marker msrepl.branch_marker;
    context text;
    around text;
    calls integer;
begin
    select m.* into marker from msrepl.branch_marker as m where m.ctid = here and m.xid = pg_current_xact_id();
    if marker.prepared or new.calls = 0 and new.pending is null then
        return null;
    elsif marker.gid is null then
        -- the setting was changed, and prepare_branch relies on it
        select m.ctid into here from msrepl.branch_marker as m where m.xid = pg_current_xact_id();
        select m.* into marker from msrepl.branch_marker as m where m.ctid = here;
        perform set_config('msrepl.marker', here::text, true);
        if marker.prepared then
            return null;
        end if;
    end if;
    get diagnostics context = pg_context;
    around := substr(context, strpos(context || E'\n', E'\n') + 1);
    if marker.asked_at is distinct from statement_timestamp()
       or marker.turn < 8 and around <> '' and split_part(around, E'\n', 1) !~ ' at COMMIT$' then
        calls := 0;
    elsif not exists (
        select from msrepl.any_client as a
        where starts_with(marker.gid, 'twopc:' || a.coordinator || ':' || a.epoch || ':')
    ) then
        raise exception 'branch % has changed replicated tables, and is not prepared at the Publisher: committed here, it would be at this site only', marker.gid
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Let the coordinator commit it: topology.transaction(...) does. It calls msrepl.prepare_publisher before it prepares or commits here.';
    elsif current_query() ~* E'^\\s*prepare\\s+transaction\\M' then
        raise exception 'a transaction that has changed replicated tables is prepared by its coordinator only'
            using errcode = 'feature_not_supported',
                  hint = 'COMMIT it, which prepares the Publisher; or let topology.transaction(...) do it.';
    else
        calls := msrepl.prepare_branch(left(marker.gid, -length({own_branch})), {sites}, true);
    end if;
    if calls = 0 then
        -- too early to tell
        set constraints msrepl.trg_mssync_guard_branches deferred;
        update msrepl.branch_marker as m set turn = least(m.turn + 1, 8), asked_at = statement_timestamp()
        where m.gid = marker.gid returning set_config('msrepl.marker', m.ctid::text, true)::tid into here;
    elsif not pg_try_advisory_xact_lock_shared(1836282471, 0) then
        perform pg_notify('msrepl_any_client', '');
    end if;
    return null;
end
$msrepl$;
alter function msrepl.refuse_unprepared() owner to {owner};
revoke all on function msrepl.refuse_unprepared() from public;
comment on function msrepl.refuse_unprepared() is 'Refuses to commit a branch whose Publisher was not asked; asks it for any client';
