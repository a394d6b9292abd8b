-- msmerge_read_<artid>: rows of an article as text.
-- called by: msmerge_enumerate_<artid>; msmerge_take_<artid>
-- tables:    the article's table
-- holes:     function, runs_as, table, rowguid, columns, owner, caller, comment
create or replace function {function}(guids uuid[]) returns table (rowguid uuid, "row" text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
begin
{runs_as}
    return query
    select t.{rowguid}, row({columns})::text from {table} as t
    where t.{rowguid} operator(pg_catalog.=) any ($1);
end
$msrepl$;
alter function {function}(uuid[]) owner to {owner};
revoke all on function {function}(uuid[]) from public;
grant execute on function {function}(uuid[]) to {caller};
comment on function {function}(uuid[]) is {comment};
