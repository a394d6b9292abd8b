-- msmerge_idh_<artid>: the highest identity value of an article's rows.
-- called by: msrepl.merge_ranges_held
-- tables:    the article's table
-- holes:     function, runs_as, table, column, owner, caller, comment
create or replace function {function}() returns int8
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
{runs_as}
    return (select max(t.{column}::int8) from {table} as t);
end
$msrepl$;
alter function {function}() owner to {owner};
revoke all on function {function}() from public;
grant execute on function {function}() to {caller};
comment on function {function}() is {comment};
