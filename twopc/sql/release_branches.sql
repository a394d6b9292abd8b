-- msrepl.release_branches: records that the other markers of these branches' global transactions may be removed, so that
-- a missing one no longer shows that its branch was rolled back manually.
-- called by: the resolver, coordinators and recovery, in batches, at a Subscriber
-- tables:    msrepl.branch_marker
-- holes:     owner
--
-- An earlier version did not record it: what it has left is released when the function is created first.
do $msrepl$
begin
    if pg_catalog.to_regprocedure('msrepl.release_branches(text[])') is null then
        update msrepl.branch_marker set created_at = '-infinity';
    end if;
end
$msrepl$;
create or replace function msrepl.release_branches(gids text[]) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    update msrepl.branch_marker as m set created_at = '-infinity' where m.gid = any ($1)
$msrepl$;
alter function msrepl.release_branches(text[]) owner to {owner};
revoke all on function msrepl.release_branches(text[]) from public;
comment on function msrepl.release_branches(text[]) is 'Lets the other markers of these global transactions be removed';
