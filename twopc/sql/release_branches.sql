-- msrepl.release_branches: records that the other markers of these branches' global transactions may be removed, so that
-- a missing one no longer shows that its branch was rolled back manually.
-- called by: the resolver, in batches, at the Subscriber
-- tables:    msrepl.branch_marker
-- holes:     owner
create or replace function msrepl.release_branches(gids text[]) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    update msrepl.branch_marker as m set created_at = '-infinity' where m.gid = any ($1)
$msrepl$;
alter function msrepl.release_branches(text[]) owner to {owner};
revoke all on function msrepl.release_branches(text[]) from public;
comment on function msrepl.release_branches(text[]) is 'Lets the other markers of these global transactions be removed';
