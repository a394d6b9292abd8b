-- trg_mssync_ins_<table>, trg_mssync_del_<table>: send the rows that a statement inserted or deleted to the
-- Publisher, in one call.
-- called by: AFTER INSERT and AFTER DELETE triggers of the subscribed table
-- tables:    transition table inserted or deleted; msrepl.branch_marker
-- holes:     function, sent, columns, rows, variables, before, ship, owner, comment
create or replace function {function}() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off
set datestyle = 'ISO' set intervalstyle = 'postgres' set extra_float_digits = 1
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    {sent} text;
    {variables}
begin{before}
    select array(select row({columns}) from {rows})::text into {sent};
    if {sent} = '{{}}' then
        return null;
    end if;
    arguments := quote_literal({sent});
{ship}
end
$msrepl$;
alter function {function}() owner to {owner};
revoke all on function {function}() from public;
comment on function {function}() is {comment};
