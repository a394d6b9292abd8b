-- msrepl.fetch_generated: fetches a block of generated values from the Publisher, larger than the last one.
-- called by: trg_mssync_fetch_<table>
-- tables:    msrepl.branch_marker
-- holes:     owner
--
-- Sizes 1, 3, 7 ... 64. The message first returns the remote transaction to its last savepoint, because
-- an error that was caught leaves it failed.
create or replace function msrepl.fetch_generated(generator text, size_before integer) returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $msrepl$
declare
    size constant integer := least(size_before * 2 + 1, 64);
    sent integer;
    command text;
    made text;
    detail text;
    context text;
    hint text;
begin
    select m.calls into sent
    from msrepl.branch_marker as m
    where m.ctid = nullif(current_setting('msrepl.marker', true), '')::tid
      and m.xid = pg_current_xact_id_if_assigned();
    sent := coalesce(sent, 0);
    command := case when sent = 0 then 'rollback' else 'rollback to s' || sent end
        || ';select ' || generator || '(' || size || ')::text';
    for attempt in 1 .. 2 loop
        begin
            made := msrepl.query_link(command);
            exit;
        exception when others then
            -- as in ship_again: repeated only while nothing depends on it
            if sent > 0 or attempt = 2 or not msrepl.link_is_lost(sqlstate) then
                get stacked diagnostics detail = pg_exception_detail, context = pg_exception_context, hint = pg_exception_hint;
                perform msrepl.explain_failure(sqlstate, sqlerrm, detail, context, command, hint);
                raise;
            end if;
        end;
        perform msrepl.open_link();
    end loop;
    return jsonb_build_object('size', size, 'rows', made::jsonb);
end
$msrepl$;
alter function msrepl.fetch_generated(text, integer) owner to {owner};
revoke all on function msrepl.fetch_generated(text, integer) from public;
comment on function msrepl.fetch_generated(text, integer) is 'Values that the Publisher generates, a block at a time';
