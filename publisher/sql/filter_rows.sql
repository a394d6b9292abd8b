-- msrepl.filter_rows: tells which row images belong to a filtered article.
-- called by: twopc.publisher.filters, for the log reader
-- tables:    none
-- holes:     path_is_kept, owner
--
-- The only access of the log reader's role to row filters, which run with the rights of their table's role.
-- Filters may call functions of users, and these may alter functions of that role.
create or replace function msrepl.filter_rows(article integer, images text[]) returns boolean[]
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    filter constant regprocedure := format('msrepl.row_filter_%s(text[])', article);
    belong boolean[];
begin
    if not (select p.prosecdef from pg_proc as p where p.oid = filter) then
        raise exception 'function % is not SECURITY DEFINER any more', filter
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at what the row filter calls.';
    end if;
    execute format('select %s($1)', filter::regproc) into belong using images;
{path_is_kept}    return belong;
end
$msrepl$;
alter function msrepl.filter_rows(integer, text[]) owner to {owner};
revoke all on function msrepl.filter_rows(integer, text[]) from public;
comment on function msrepl.filter_rows(integer, text[]) is 'Which images of rows belong to a filtered article';
