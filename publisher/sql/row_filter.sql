-- msrepl.row_filter_<article>: whether images of rows, as the log holds them, fulfil an article's row filter.
-- called by: filter_rows
-- tables:    none
-- holes:     function, type, values, table, alias, condition, owner, comment
--
-- An image has the columns that the log holds. Generated ones are worked out again, and the whole is a row of
-- the table, so that the filter means here what it means there. The table goes by its own name, inside of
-- which no other name can stand between the filter and its columns. NULL for NULL: no image.
create or replace function {function}(text[]) returns boolean[]
language sql security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set datestyle = 'ISO'
as $msrepl$
    select array_agg(
        case when sent.image is not null then (
            select ({condition}) is true
            from unnest(array[(
                select row({values})::{table}
                from unnest(array[sent.image::{type}]) as {alias}
            )]) as {alias}
        ) end
        order by sent.place)
    from unnest($1) with ordinality as sent(image, place)
$msrepl$;
alter function {function}(text[]) owner to {owner};
revoke all on function {function}(text[]) from public;
comment on function {function}(text[]) is {comment};
