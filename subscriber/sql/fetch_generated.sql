-- msrepl.fetch_generated: a block of generated values from the Publisher, larger than the last one.
-- called by: trg_mssync_gen_<table>
-- tables:    msrepl.branch_marker
-- holes:     owner, link
--
-- Sizes 1, 3, 7 ... 64. The message first brings the remote transaction to where it should be, because an
-- error that was caught leaves it failed.
create or replace function msrepl.fetch_generated(generator text, size_before integer) returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    size constant integer := least(size_before * 2 + 1, 64);
    sent integer;
    command text;
    made text;
begin
    select m.calls into sent
    from msrepl.branch_marker as m
    where m.ctid = nullif(current_setting('msrepl.marker', true), '')::tid
      and m.xid = pg_current_xact_id_if_assigned();
    command := case when coalesce(sent, 0) = 0 then 'rollback' else 'rollback to s' || sent end
        || ';select ' || generator || '(' || size || ')::text';
    if not {link} = any (coalesce(msrepl_link.dblink_get_connections(), array[]::text[])) then
        perform msrepl.open_link();
    end if;
    begin
        select t.made into made from msrepl_link.dblink({link}, command) as t(made text);
    exception
        when query_canceled then
            perform msrepl.drain_link();
            raise;
        when connection_exception or connection_does_not_exist or connection_failure or admin_shutdown
            or crash_shutdown or cannot_connect_now or idle_in_transaction_session_timeout then
            if coalesce(sent, 0) > 0 then
                raise;
            end if;
            perform msrepl.open_link();
            select t.made into made from msrepl_link.dblink({link}, command) as t(made text);
    end;
    return jsonb_build_object('size', size, 'rows', made::jsonb);
end
$msrepl$;
alter function msrepl.fetch_generated(text, integer) owner to {owner};
revoke all on function msrepl.fetch_generated(text, integer) from public;
comment on function msrepl.fetch_generated(text, integer) is 'Values that the Publisher generates, a block at a time';
