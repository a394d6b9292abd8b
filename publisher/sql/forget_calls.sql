-- msrepl.forget_calls: removes call markers that were written to the log more than an hour ago.
-- called by: the log reader
-- tables:    msrepl.call_marker
-- holes:     owner
create or replace function msrepl.forget_calls() returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    delete from msrepl.call_marker as m where m.created_at < now() - interval '1 hour'
$msrepl$;
alter function msrepl.forget_calls() owner to {owner};
revoke all on function msrepl.forget_calls() from public;
comment on function msrepl.forget_calls() is 'Removes marks of calls that the log has had for long';
