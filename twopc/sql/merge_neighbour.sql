-- msrepl.merge_neighbour: returns the neighbour for which this session works.
-- called by: every function that agents call
-- tables:    msrepl.sysmergesubscriptions
-- holes:     owner
--
-- It is identified by the role that logged in, never by an argument.
create or replace function msrepl.merge_neighbour() returns msrepl.sysmergesubscriptions
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    found_one msrepl.sysmergesubscriptions;
begin
    select s.* into found_one from msrepl.sysmergesubscriptions as s where s.login = session_user and s.status = 1;
    if not found then
        raise exception 'role % works for no subscription here', session_user
            using errcode = 'object_not_in_prerequisite_state', hint = 'Subscribe again.';
    end if;
    return found_one;
end
$msrepl$;
alter function msrepl.merge_neighbour() owner to {owner};
revoke all on function msrepl.merge_neighbour() from public;
comment on function msrepl.merge_neighbour() is 'The neighbour for whom the session works';
