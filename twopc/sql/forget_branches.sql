-- msrepl.forget_branches: removes the markers of branches whose global transactions have ended everywhere.
-- called by: the coordinator, in batches
-- tables:    msrepl.branch_marker
-- holes:     owner
create or replace function msrepl.forget_branches(gids text[]) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    forgotten integer;
begin
    delete from msrepl.branch_marker as m where m.gid = any ($1);
    get diagnostics forgotten = row_count;
    return forgotten;
end
$msrepl$;
alter function msrepl.forget_branches(text[]) owner to {owner};
revoke all on function msrepl.forget_branches(text[]) from public;
comment on function msrepl.forget_branches(text[]) is 'Removes the markers of these branches';
