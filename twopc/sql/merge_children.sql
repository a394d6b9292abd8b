-- msmerge_children_<artid>: rows of an article that belong to the partitions of rows of its parents.
-- called by: msmerge_map_<artid>
-- tables:    the article's table and those of its parents
-- holes:     function, runs_as, rows, owner, caller, comment
create or replace function {function}(parents uuid[]) returns table (rowguid uuid)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
begin
{runs_as}
    return query
{rows};
end
$msrepl$;
alter function {function}(uuid[]) owner to {owner};
revoke all on function {function}(uuid[]) from public;
grant execute on function {function}(uuid[]) to {caller};
comment on function {function}(uuid[]) is {comment};
