-- msrepl.suser_sname: in a filter, the login of the Subscriber to which the partition belongs.
-- called by: nothing: in a filter it is replaced by the value of each partition
-- tables:    none
-- holes:     owner
create or replace function msrepl.suser_sname() returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    raise exception 'msrepl.suser_sname() has a value in filters of merge articles alone'
        using errcode = 'object_not_in_prerequisite_state';
end
$msrepl$;
alter function msrepl.suser_sname() owner to {owner};
revoke all on function msrepl.suser_sname() from public;
comment on function msrepl.suser_sname() is 'In a filter, the login of the Subscriber whose partition it is';
