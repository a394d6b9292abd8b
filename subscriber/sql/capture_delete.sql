-- trg_mssync_del_<table>: sends the rows that a statement deleted to the Publisher, in one call.
-- called by: AFTER DELETE trigger of the subscribed table
-- tables:    transition table deleted; msrepl.branch_marker
-- holes:     function, old_columns, variables, before, ship, owner, comment
create or replace function {function}() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off
set datestyle = 'ISO' set intervalstyle = 'postgres' set extra_float_digits = 1
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    olds text;
    {variables}
begin{before}
    select array(select row({old_columns}) from deleted as o)::text into olds;
    if olds = '{{}}' then
        return null;
    end if;
    arguments := quote_literal(olds);
{ship}
end
$msrepl$;
alter function {function}() owner to {owner};
revoke all on function {function}() from public;
comment on function {function}() is {comment};
