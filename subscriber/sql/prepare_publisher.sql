-- msrepl.prepare_publisher: sends what waits and prepares the Publisher's branch.
-- called by: the coordinator, in the same message as the local PREPARE TRANSACTION or COMMIT
-- tables:    msrepl.branch_marker, msrepl.any_client
-- holes:     owner, link, held, own_branch, sites
--
-- calls is 0 on return if nothing was sent in this transaction: then there is no branch at the Publisher.
-- A vote is a command tag and nothing else: PREPARE TRANSACTION of a failed transaction succeeds with the
-- tag ROLLBACK, and NULL must not pass for yes. After any error the branch may still be prepared there
-- (cancelled, or the link lost with the answer): whoever called rolls it back at the Publisher too.
--
-- participants: all branches, this Subscriber's at the Publisher first; given where there are several
-- Subscribers. A Subscriber's link is a session of its own at the Publisher, and so is its branch.
create or replace procedure msrepl.prepare_publisher(
    gid text, inout calls integer, participants text[] default {sites})
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $msrepl$
#variable_conflict use_column
<<prepare>>
declare
    marker tid := nullif(current_setting('msrepl.marker', true), '')::tid;
    branch constant text := $1 || ':' || $3[1];
    marked text;
    sites text[];
    sent integer;
    queued text;
    command text;
    tag text;
    detail text;
    context text;
begin{held}
    select m.gid, m.participants, m.calls, m.pending into marked, sites, sent, queued
    from msrepl.branch_marker as m
    where m.ctid = marker and m.xid = pg_current_xact_id_if_assigned();
    if $1 is null then
        raise exception 'prepare_publisher: the id of the global transaction is missing'
            using errcode = 'null_value_not_allowed';
    end if;
    if marked is null then
        if exists (
            select from msrepl.any_client as a
            where starts_with($1, 'twopc:' || a.coordinator || ':' || a.epoch || ':')
        ) then
            raise exception 'transactions called %... are numbered here, and prepared at their COMMIT only', left($1, -length(substring($1 from '[^:]*$')))
                using errcode = 'insufficient_privilege';
        end if;
        perform msrepl.reset_link();
        if pg_current_xact_id_if_assigned() is not null then
            begin
                insert into msrepl.branch_marker (gid, xid, participants)
                values ($1 || {own_branch}, pg_current_xact_id(),
                        case when $3 = {sites} then array[]::text[] else $3 end);
            exception when unique_violation then
                raise exception 'this transaction was prepared at the Publisher already, or its settings msrepl.* were changed'
                    using errcode = 'invalid_transaction_state',
                          detail = sqlerrm,
                          hint = 'Roll back and try again.';
            end;
        end if;
        $2 := 0;
        return;
    end if;
    if marked <> $1 || {own_branch} then
        raise exception 'this transaction captured changes as %, not as %', marked, $1 || {own_branch}
            using errcode = 'invalid_transaction_state',
                  hint = 'msrepl.gid was changed within the transaction: roll back and try again.';
    end if;
    if sites is distinct from $3 then
        raise exception 'this transaction captured changes for the branches %, not for %', sites, $3
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
            get stacked diagnostics detail = pg_exception_detail, context = pg_exception_context;
            if msrepl.link_is_lost(sqlstate) then
                tag := msrepl.prepare_again(prepare.branch, sent = 0, sqlerrm, command);
            else
                perform msrepl.explain_failure(sqlstate, sqlerrm, detail, context, command);
                raise;
            end if;
    end;
    if tag is distinct from 'PREPARE TRANSACTION' then
        raise exception 'the Publisher did not prepare: its answer was %', coalesce(tag, 'nothing')
            using errcode = 'transaction_rollback';
    end if;
    -- no row is there: whatever this transaction still changes can no longer be sent, and is refused
    perform set_config('msrepl.marker', '(0,0)', true);
    $2 := greatest(sent, 1);
end
$msrepl$;
alter procedure msrepl.prepare_publisher(text, integer, text[]) owner to {owner};
revoke all on procedure msrepl.prepare_publisher(text, integer, text[]) from public;
comment on procedure msrepl.prepare_publisher(text, integer, text[]) is 'Sends what waits and prepares the branch at the Publisher';
