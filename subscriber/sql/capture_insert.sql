-- trg_mssync_ins_<table>: sends the rows that a statement inserted to the Publisher, in one call.
-- called by: AFTER INSERT trigger of the subscribed table
-- tables:    transition table inserted; msrepl.branch_marker
-- holes:     function, new_columns, variables, before, ship, owner, comment
create or replace function {function}() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off
set datestyle = 'ISO' set intervalstyle = 'postgres' set extra_float_digits = 1
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    news text;
    {variables}
begin{before}
    select array(select row({new_columns}) from inserted as n)::text into news;
    if news = '{{}}' then
        return null;
    end if;
    arguments := quote_literal(news);
{ship}
end
$msrepl$;
alter function {function}() owner to {owner};
revoke all on function {function}() from public;
comment on function {function}() is {comment};
