-- msrepl.queue_call: adds a call to those that wait in the branch marker.
-- called by: capture triggers (lazy shipping)
-- tables:    msrepl.branch_marker
-- holes:     owner
--
-- Appending copies the text, so the queue is sent when it has grown to 64 kB.
create or replace function msrepl.queue_call(call text, queued text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    update msrepl.branch_marker as m
    set pending = coalesce(m.pending || ';', '') || $1
    where m.xid = pg_current_xact_id();
    if length($1) + coalesce(length($2), 0) > 65536 then
        perform msrepl.flush();
    end if;
end
$msrepl$;
alter function msrepl.queue_call(text, text) owner to {owner};
revoke all on function msrepl.queue_call(text, text) from public;
comment on function msrepl.queue_call(text, text) is 'Adds a call to those that wait';
