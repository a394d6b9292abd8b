-- msrepl.host_name: in a filter, the host of the Subscriber to which the partition belongs.
-- called by: nothing: in a filter it is replaced by the value of each partition
-- tables:    none
-- holes:     owner
create or replace function msrepl.host_name() returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    raise exception 'msrepl.host_name() has a value in filters of merge articles alone'
        using errcode = 'object_not_in_prerequisite_state';
end
$msrepl$;
alter function msrepl.host_name() owner to {owner};
revoke all on function msrepl.host_name() from public;
comment on function msrepl.host_name() is 'In a filter, the host of the Subscriber whose partition it is';
