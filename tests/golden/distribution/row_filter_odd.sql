-- mssync_<what>_row_<table>: the type of one article's rows as a Subscriber sends them.
-- called by: parameters of the sync procedures
-- tables:    none
-- holes:     type, attributes, owner, comment
create type "msrepl"."row_image_7" as ("t" integer, "sent" text, "100% {x} %(y)s" text, "it's ""so""" text, "naïve\日本" text, "msrepl_tran_version" uuid);
alter type "msrepl"."row_image_7" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."row_image_7" from public;
comment on type "msrepl"."row_image_7" is  E'Rows of the "odd" one.t%s{}\\'' as the log holds them';

-- msrepl.row_filter_<article>: tells which row images, as they are in the log, satisfy an article's row filter.
-- called by: filter_rows
-- tables:    none
-- holes:     function, type, sent, image, place, rows, alias, condition, owner, caller, comment
--
-- An image has the columns that are in the log; generated columns are computed again. The table has its own
-- name here, so that the filter means the same as there; no column of it has the name of a column of `sent`.
create or replace function "msrepl"."row_filter_7"(text[]) returns boolean[]
language sql security definer
set search_path = pg_catalog, pg_temp
set timezone = 'UTC'
set datestyle = 'ISO'
as $msrepl$
    select array_agg((true) is true order by "place")
    from (
        select u.image::"msrepl"."row_image_7", u.place
        from unnest($1) with ordinality as u(image, place)
        offset 0 -- so that each image is parsed only once
    ) as "sent_"("image", "place")
    cross join lateral (select "t%s{}\'"."t", "t%s{}\'"."sent", "t%s{}\'"."100% {x} %(y)s", "t%s{}\'"."it's ""so""", "t%s{}\'"."naïve\日本", "t%s{}\'"."msrepl_tran_version" from (select ("sent_"."image")."t" as "t", ("sent_"."image")."sent" as "sent", ("sent_"."image")."100% {x} %(y)s" as "100% {x} %(y)s", ("sent_"."image")."it's ""so""" as "it's ""so""", ("sent_"."image")."naïve\日本" as "naïve\日本", ("sent_"."image")."msrepl_tran_version" as "msrepl_tran_version") as "t%s{}\'") as "t%s{}\'"
$msrepl$;
alter function "msrepl"."row_filter_7"(text[]) owner to "msrepl_table_c268110370c2_b4c33d6dfab3";
revoke all on function "msrepl"."row_filter_7"(text[]) from public;
grant execute on function "msrepl"."row_filter_7"(text[]) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."row_filter_7"(text[]) is  E'Whether rows of the "odd" one.t%s{}\\'' belong to article 7';
