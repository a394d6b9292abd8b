-- fragment: sends one call to the Publisher, or queues it; the end of every capture trigger.
-- called by: rendered into capture_rows, capture_update (a function of its own would cost
--            more than these lines)
-- tables:    msrepl.branch_marker
-- holes:     call, own_branch, publisher_branch, sites, sites_text, table_name, send, send_again, after
--
-- `calls` counts what was sent in this branch. It rolls back with the caller's savepoint, and every message first
-- returns the Publisher's transaction to the savepoint that it names: the remote side follows the local one without
-- being asked for its state, and a failed remote transaction is recovered in the same way. A savepoint to which the
-- caller can no longer roll back, because this call and the previous one belong to the same subtransaction, is
-- released: savepoints nested ever deeper would make each call more expensive than the last. (The last writer of the
-- row shows this, unless the guard has written it in between, which may run in any subtransaction.)
--
-- With several Subscribers, msrepl.participants names all branches, this one's at the Publisher first. Its value is
-- stored in the marker row, and prepare_branch refuses one that the coordinator did not set.
--
-- The setting msrepl.marker only says where the marker row is. A user who changes it gets an error: the row's xid is
-- checked, and without the setting a second marker of the same xid is refused. An index would be slower, and under
-- SERIALIZABLE its pages would make unrelated transactions conflict. (The functions set enable_seqscan off: a plan
-- made while the table was small would otherwise scan it for ever.)
    sync.marker := nullif(current_setting('msrepl.marker', true), '')::tid;
    if sync.marker is not null then
        sync.call := {call} || 'null,null,' || sync.arguments || ')';
        update msrepl.branch_marker as m
        set calls = m.calls + sync.step,
            prior = case when m.asked_at is null then m.xmin end,
            asked_at = null,
            pending = case when sync.step = 0 then coalesce(m.pending || ';', '') || sync.call
                           else m.pending end
        where m.ctid = sync.marker and m.xid = pg_current_xact_id() and not m.prepared
        returning m.calls, m.pending, set_config('msrepl.marker', m.ctid::text, true)::tid, m.prior = m.xmin and m.pending is null
        into sync.sent, sync.queued, sync.marker, sync.level;
    else
        sync.transaction := msrepl.name_transaction({table_name});
        sync.sites := nullif(current_setting('msrepl.participants', true), '')::text[];
        sync.call := {call} || quote_literal(sync.transaction || coalesce(':' || sync.sites[1], {publisher_branch}))
            || ',' || coalesce(quote_literal(sync.sites), {sites_text}) || ',' || sync.arguments || ')';
        insert into msrepl.branch_marker as m (gid, xid, participants, calls, pending)
        values (sync.transaction || {own_branch}, pg_current_xact_id(), coalesce(sync.sites, {sites}), sync.step,
                case when sync.step = 0 then sync.call end)
        on conflict (xid) do nothing
        -- set here, because after SET CONSTRAINTS ALL IMMEDIATE the guard moves the row before the next statement
        returning m.calls, set_config('msrepl.marker', m.ctid::text, true)::tid into sync.sent, sync.marker;
    end if;
    if sync.sent is null then
        perform msrepl.raise_uncoordinated({table_name});
    end if;
    if sync.step = 0 then
        -- appending copies the text, so a long one is sent
        if length(sync.queued) > 16384 then
            perform msrepl.flush();
        end if;
        return null;
    end if;
    if sync.sent = 1 then
        sync.call := 'rollback;begin isolation level ' || current_setting('transaction_isolation')
            || coalesce(';' || sync.queued, '') || ';' || sync.call || ';savepoint s1';
    else
        sync.call := 'rollback to s' || sync.sent - 1 || coalesce(';' || sync.queued, '') || ';' || sync.call
            || case when sync.level then ';release s' || sync.sent - 1 else '' end || ';savepoint s' || sync.sent;
    end if;
    begin
        {send}
    exception
        when query_canceled then
            perform msrepl.drain_link();
            raise;
        when others then
            get stacked diagnostics detail = pg_exception_detail, context = pg_exception_context, hint = pg_exception_hint;
            if not msrepl.ship_again(sqlstate, sqlerrm, detail, sync.sent = 1, sync.call, context, hint) then
                raise;
            end if;{send_again}
    end;{after}
    if sync.queued is not null then
        update msrepl.branch_marker as m set pending = null where m.ctid = sync.marker
        returning set_config('msrepl.marker', m.ctid::text, true)::tid into sync.marker;
    end if;
    return null;
