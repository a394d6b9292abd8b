-- msrepl.prepare_branch: sends what is queued and prepares the Publisher's branch.
-- called by: prepare_publisher, and refuse_unprepared for any client
-- tables:    msrepl.branch_marker
-- holes:     owner, link, held, own_branch
--
-- Returns how many calls were sent; 0 if nothing was captured in this transaction, which then has no branch
-- at the Publisher.
-- as_whole: for the transaction as a whole. Also returns 0, and asks nothing, if the session could still roll
-- back to a savepoint: the Publisher would then have prepared what is rolled back here.
-- A vote is a command tag and nothing else: PREPARE TRANSACTION of a failed transaction succeeds with the tag
-- ROLLBACK, and NULL must not pass for yes. After any error the branch may still be prepared there
-- (cancelled, or the link lost with the answer): the caller must roll it back at the Publisher too.
drop procedure if exists msrepl.prepare_branch(text, integer, text[]), msrepl.prepare_branch(text, integer, text[], boolean);
create or replace function msrepl.prepare_branch(gid text, participants text[], as_whole boolean) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $msrepl$
#variable_conflict use_column
<<prepare>>
declare
    marker tid := nullif(current_setting('msrepl.marker', true), '')::tid;
    branch constant text := $1 || ':' || $2[1];
    marked text;
    sites text[];
    sent integer;
    queued text;
    within boolean;
    command text;
    tag text;
    detail text;
    context text;
    hint text;
begin
    -- what is prepared there must not be lost here, and neither must a coordinator's COMMIT PREPARED
    if current_setting('synchronous_commit') not in ('on', 'remote_apply') then
        perform set_config('synchronous_commit', 'on', $3);
    end if;{held}
    -- the row records it from here on, and is rolled back with a savepoint: later changes are refused
    update msrepl.branch_marker as m set prepared = true
    where m.ctid = marker and m.xid = pg_current_xact_id_if_assigned() and not m.prepared
    returning m.gid, m.participants, m.calls, m.pending, set_config('msrepl.marker', m.ctid::text, true)::tid,
              m.xmin <> m.xid::xid
    into marked, sites, sent, queued, marker, within;
    if marked is null then
        return 0;
    elsif $3 and within then
        update msrepl.branch_marker as m set prepared = false where m.ctid = marker
        returning set_config('msrepl.marker', m.ctid::text, true)::tid into marker;
        return 0;
    end if;
    if marked <> $1 || {own_branch} then
        raise exception 'this transaction captured changes as %, not as %', marked, $1 || {own_branch}
            using errcode = 'invalid_transaction_state',
                  hint = 'msrepl.gid was changed within the transaction: roll back and try again.';
    end if;
    if sites is distinct from $2 then
        raise exception 'this transaction captured changes for the branches %, not for %', sites, $2
            using errcode = 'invalid_transaction_state',
                  hint = 'msrepl.participants was changed within the transaction: roll back and try again.';
    end if;
    command := case when sent = 0
            then 'rollback;begin isolation level ' || current_setting('transaction_isolation')
            else 'rollback to s' || sent end
        || coalesce(';' || queued, '')
        || ';prepare transaction ' || quote_literal(branch);
    begin
        tag := msrepl_link.dblink_exec({link}, command);
    exception
        when query_canceled then
            perform msrepl.drain_link();
            raise;
        when others then
            get stacked diagnostics detail = pg_exception_detail, context = pg_exception_context, hint = pg_exception_hint;
            if msrepl.link_is_lost(sqlstate) then
                tag := msrepl.prepare_again(prepare.branch, sent = 0, sqlerrm, command);
            else
                perform msrepl.explain_failure(sqlstate, sqlerrm, detail, context, command, hint);
                raise;
            end if;
    end;
    if tag is distinct from 'PREPARE TRANSACTION' then
        raise exception 'the Publisher did not prepare: its answer was %', coalesce(tag, 'nothing')
            using errcode = 'transaction_rollback';
    end if;
    return greatest(sent, 1);
end
$msrepl$;
alter function msrepl.prepare_branch(text, text[], boolean) owner to {owner};
revoke all on function msrepl.prepare_branch(text, text[], boolean) from public;
comment on function msrepl.prepare_branch(text, text[], boolean) is 'Sends what waits and prepares the branch at the Publisher';
