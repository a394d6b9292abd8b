-- msmerge_lock_<artid>: locks rows of an article in a fixed order, and returns those that exist.
-- called by: msmerge_take_<artid>
-- tables:    the article's table
-- holes:     function, runs_as, table, rowguid, owner, caller, comment
create or replace function {function}(guids uuid[]) returns table (rowguid uuid)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
begin
{runs_as}
    return query
    select t.{rowguid} from {table} as t
    where t.{rowguid} operator(pg_catalog.=) any ($1)
    order by t.{rowguid} for update;
end
$msrepl$;
alter function {function}(uuid[]) owner to {owner};
revoke all on function {function}(uuid[]) from public;
grant execute on function {function}(uuid[]) to {caller};
comment on function {function}(uuid[]) is {comment};
