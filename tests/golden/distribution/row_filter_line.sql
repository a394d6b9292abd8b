-- mssync_<what>_row_<table>: the rows of one article on their way from a Subscriber.
-- called by: parameters of the sync procedures
-- tables:    none
-- holes:     type, attributes, owner, comment
create type "msrepl"."row_image_7" as ("order" bigint, "place" smallint, "code" public.citext, "data" json, "msrepl_tran_version" uuid);
alter type "msrepl"."row_image_7" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."row_image_7" from public;
comment on type "msrepl"."row_image_7" is 'Rows of sales.line as the log holds them';

-- msrepl.row_filter_<article>: whether images of rows, as the log holds them, fulfil an article's row filter.
-- called by: filter_rows
-- tables:    none
-- holes:     function, type, values, table, alias, condition, owner, comment
--
-- An image has the columns that the log holds. Generated ones are worked out again, and the whole is a row of
-- the table, so that the filter means here what it means there. The table goes by its own name, inside of
-- which no other name can stand between the filter and its columns. NULL for NULL: no image.
create or replace function "msrepl"."row_filter_7"(text[]) returns boolean[]
language sql security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set datestyle = 'ISO'
as $msrepl$
    select array_agg(
        case when sent.image is not null then (
            select (place < 10 and public.wanted(line.*)) is true
            from unnest(array[(
                select row("line"."order", "line"."place", "line"."code", "line"."data", "line"."msrepl_tran_version")::"sales"."line"
                from unnest(array[sent.image::"msrepl"."row_image_7"]) as "line"
            )]) as "line"
        ) end
        order by sent.place)
    from unnest($1) with ordinality as sent(image, place)
$msrepl$;
alter function "msrepl"."row_filter_7"(text[]) owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."row_filter_7"(text[]) from public;
comment on function "msrepl"."row_filter_7"(text[]) is 'Whether rows of sales.line belong to article 7';
