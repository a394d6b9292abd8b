-- msrepl.flush: sends the calls that are queued in the branch marker.
-- called by: capture triggers (lazy shipping, referential actions)
-- tables:    msrepl.branch_marker
-- holes:     owner, link
create or replace function msrepl.flush() returns void
language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $msrepl$
declare
    marker tid := nullif(current_setting('msrepl.marker', true), '')::tid;
    sent integer;
    queued text;
    command text;
    detail text;
    context text;
    hint text;
begin
    select m.calls + 1, m.pending into sent, queued
    from msrepl.branch_marker as m
    where m.ctid = marker and m.xid = pg_current_xact_id_if_assigned();
    if queued is null then
        return;
    end if;
    update msrepl.branch_marker as m set calls = sent, pending = null where m.ctid = marker
    returning set_config('msrepl.marker', m.ctid::text, true)::tid into marker;
    command := case when sent = 1
            then 'rollback;begin isolation level ' || current_setting('transaction_isolation')
            else 'rollback to s' || sent - 1 end
        || ';' || queued || ';savepoint s' || sent;
    begin
        perform msrepl_link.dblink_exec({link}, command);
    exception
        when query_canceled then
            perform msrepl.drain_link();
            raise;
        when others then
            get stacked diagnostics detail = pg_exception_detail, context = pg_exception_context, hint = pg_exception_hint;
            if not msrepl.ship_again(sqlstate, sqlerrm, detail, sent = 1, command, context, hint) then
                raise;
            end if;
    end;
end
$msrepl$;
alter function msrepl.flush() owner to {owner};
revoke all on function msrepl.flush() from public;
comment on function msrepl.flush() is 'Sends the calls that wait';
