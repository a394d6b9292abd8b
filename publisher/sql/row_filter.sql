-- msrepl.row_filter_<article>: tells which row images, as they are in the log, satisfy an article's row filter.
-- called by: filter_rows
-- tables:    none
-- holes:     function, type, sent, image, place, rows, alias, condition, owner, caller, comment
--
-- An image has the columns that are in the log; generated columns are computed again. The table has its own
-- name here, so that the filter means the same as there; no column of it has the name of a column of `sent`.
create or replace function {function}(text[]) returns boolean[]
language sql security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set datestyle = 'ISO'
as $msrepl$
    select array_agg(({condition}) is true order by {place})
    from (
        select u.image::{type}, u.place
        from unnest($1) with ordinality as u(image, place)
        offset 0 -- so that each image is parsed only once
    ) as {sent}({image}, {place})
    cross join lateral {rows} as {alias}
$msrepl$;
alter function {function}(text[]) owner to {owner};
revoke all on function {function}(text[]) from public;
grant execute on function {function}(text[]) to {caller};
comment on function {function}(text[]) is {comment};
