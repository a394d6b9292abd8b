-- msrepl.filter_rows: which images of rows belong to a filtered article.
-- called by: publisher.filters, for the log reader
-- tables:    none
-- holes:     owner
--
-- The one door of the log reader's role to the filters, which run with the rights of their owner.
create or replace function msrepl.filter_rows(article integer, images text[]) returns boolean[]
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    belong boolean[];
begin
    execute format('select msrepl.%I($1)', 'row_filter_' || article) into belong using images;
    return belong;
end
$msrepl$;
alter function msrepl.filter_rows(integer, text[]) owner to {owner};
revoke all on function msrepl.filter_rows(integer, text[]) from public;
comment on function msrepl.filter_rows(integer, text[]) is 'Which images of rows belong to a filtered article';
