-- msrepl.refuse_unprepared: the transaction is not committed here without its branch at the Publisher.
-- called by: the deferred trigger of msrepl.branch_marker, at PREPARE TRANSACTION or COMMIT
-- tables:    msrepl.branch_marker, msrepl.any_client
-- holes:     owner, own_branch
--
-- Whoever names a global transaction by hand and then commits as ever would have the change at this site
-- only: what the link has open at the Publisher is rolled back. prepare_publisher leaves (0,0) behind.
--
-- Any client: the Publisher's branch is prepared here, and the COMMIT that goes on is the decision. What still
-- fails after that leaves the branch prepared, without a decision; the resolver rolls it back. So that hardly
-- anything does, the first turn only goes to the end of the queue, behind every deferred trigger that was
-- waiting when the transaction ended.
--
-- A resolver that sleeps holds the advisory lock 1836282471 and is woken; one that is awake cannot fall asleep
-- until our commit can be seen. NOTIFY would let only one transaction at a time commit on the whole server.
--
-- SET CONSTRAINTS ALL IMMEDIATE makes this run too early to tell. A coordinator's transaction is not guarded
-- then; any client's is asked again at its end. At a transaction's end no other function or statement is around
-- this one; a procedure's COMMIT is. Said twice, SET CONSTRAINTS ALL IMMEDIATE prepares any client's branch: what
-- is changed after that is refused. In another language of messages a procedure's COMMIT is not known as such:
-- after some turns it is taken for the end whatever is around.
create or replace function msrepl.refuse_unprepared() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $msrepl$
#variable_conflict use_column
declare
    marker tid := nullif(current_setting('msrepl.marker', true), '')::tid;
    context text;
    around text;
    is_any boolean;
    is_early boolean;
    calls integer;
begin
    if marker = '(0,0)' then
        return null;
    end if;
    get diagnostics context = pg_context;
    around := substr(context, strpos(context || E'\n', E'\n') + 1);
    is_early := new.turn < 8 and around <> '' and split_part(around, E'\n', 1) !~ ' at COMMIT$';
    is_any := exists (
        select from msrepl.any_client as a
        where starts_with(new.gid, 'twopc:' || a.coordinator || ':' || a.epoch || ':')
    );
    if not is_any then
        if is_early or current_query() ~* '\mset\s+constraints\M' then
            return null;
        end if;
        raise exception 'branch % has changed replicated tables, and is not prepared at the Publisher: committed here, it would be at this site only', new.gid
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Let the coordinator commit it: topology.transaction(...) does. It calls msrepl.prepare_publisher before it prepares or commits here.';
    end if;
    if is_early or tg_op = 'INSERT' then
        set constraints msrepl.trg_mssync_guard_branches deferred;
        update msrepl.branch_marker as m set turn = m.turn + 1
        where m.ctid = marker and m.xid = pg_current_xact_id()
        returning m.ctid into marker;
        if marker is null then
            raise exception 'the settings msrepl.* were changed in a transaction that has changed replicated tables'
                using errcode = 'invalid_transaction_state',
                      hint = 'Roll back and try again. RESET ALL and DISCARD ALL have no place in such a transaction.';
        end if;
        perform set_config('msrepl.marker', marker::text, true);
        return null;
    end if;
    if current_query() ~* '^\s*prepare\s+transaction\M' then
        raise exception 'a transaction that has changed replicated tables is prepared by its coordinator only'
            using errcode = 'feature_not_supported',
                  hint = 'COMMIT it, which prepares the Publisher; or let topology.transaction(...) do it.';
    end if;
    call msrepl.prepare_publisher(left(new.gid, -length({own_branch})), calls);
    if not pg_try_advisory_xact_lock_shared(1836282471, 0) then
        perform pg_notify('msrepl_any_client', '');
    end if;
    return null;
end
$msrepl$;
alter function msrepl.refuse_unprepared() owner to {owner};
revoke all on function msrepl.refuse_unprepared() from public;
comment on function msrepl.refuse_unprepared() is 'Refuses to commit a branch whose Publisher was not asked; asks it for any client';
