-- msrepl.row_filter_<article>: whether images of rows, as the log holds them, fulfil an article's row filter.
-- called by: filter_rows
-- tables:    none
-- holes:     function, type, sent, image, place, rows, alias, condition, owner, caller, comment
--
-- An image has the columns that the log holds; generated ones are worked out again. The table goes by its own
-- name, so that the filter means here what it means there; no column of it is called like one of those in
-- sent.
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
        offset 0 -- each image is read once
    ) as {sent}({image}, {place})
    cross join lateral {rows} as {alias}
$msrepl$;
alter function {function}(text[]) owner to {owner};
revoke all on function {function}(text[]) from public;
grant execute on function {function}(text[]) to {caller};
comment on function {function}(text[]) is {comment};
