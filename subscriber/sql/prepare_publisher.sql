-- msrepl.prepare_publisher: sends what waits and prepares the Publisher's branch.
-- called by: the coordinator, in the same message as the local PREPARE TRANSACTION or COMMIT
-- tables:    msrepl.branch_marker
-- holes:     owner, link, own_branch, publisher_branch, sites
--
-- calls is 0 on return if nothing was sent in this transaction: then there is no branch at the Publisher.
-- A vote is a command tag and nothing else: PREPARE TRANSACTION of a failed transaction succeeds with the
-- tag ROLLBACK, and NULL must not pass for yes.
create or replace procedure msrepl.prepare_publisher(gid text, inout calls integer)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
<<prepare>>
declare
    marker constant tid := nullif(current_setting('msrepl.marker', true), '')::tid;
    marked text;
    sent integer;
    queued text;
    command text;
    tag text;
    detail text;
begin
    select m.gid, m.calls, m.pending into marked, sent, queued
    from msrepl.branch_marker as m
    where m.ctid = marker and m.xid = pg_current_xact_id_if_assigned();
    if marked is null then
        perform msrepl.reset_link();
        if pg_current_xact_id_if_assigned() is not null then
            insert into msrepl.branch_marker (gid, xid, participants)
            values ($1 || {own_branch}, pg_current_xact_id(), array[]::text[]);
        end if;
        $2 := 0;
        return;
    end if;
    if marked is distinct from $1 || {own_branch} then
        raise exception 'this transaction captured changes as %, not as %', marked, $1 || {own_branch}
            using errcode = 'invalid_transaction_state',
                  hint = 'msrepl.gid was changed within the transaction: roll back and try again.';
    end if;
    command := case when sent = 0
            then 'rollback;begin isolation level ' || current_setting('transaction_isolation')
            else 'rollback to s' || sent end
        || coalesce(';' || queued, '')
        || ';prepare transaction ' || quote_literal($1 || {publisher_branch});
    begin
        tag := msrepl_link.dblink_exec({link}, command);
    exception
        when query_canceled then
            perform msrepl.drain_link();
            raise;
        when others then
            -- only an unopened or broken link before anything was sent may be tried again: PREPARE
            -- itself may have arrived, and a second one would fail as a duplicate, which is a no
            get stacked diagnostics detail = pg_exception_detail;
            if not msrepl.ship_again(sqlstate, sqlerrm, detail, sent = 0, command) then
                raise;
            end if;
            tag := 'PREPARE TRANSACTION';
    end;
    if tag is distinct from 'PREPARE TRANSACTION' then
        raise exception 'the Publisher did not prepare: its answer was %', coalesce(tag, 'nothing')
            using errcode = 'transaction_rollback';
    end if;
    $2 := greatest(sent, 1);
end
$msrepl$;
alter procedure msrepl.prepare_publisher(text, integer) owner to {owner};
revoke all on procedure msrepl.prepare_publisher(text, integer) from public;
comment on procedure msrepl.prepare_publisher(text, integer) is 'Sends what waits and prepares the branch at the Publisher';
