-- trg_mssync_upd_<table>: sends the rows that an UPDATE changed to the Publisher, in one call.
-- called by: AFTER UPDATE trigger of the subscribed table
-- tables:    transition tables deleted and inserted; msrepl.branch_marker
-- holes:     function, old_columns, new_columns, salt, variables, before, ship, owner, comment
--
-- Old and new rows are paired by position. Transition tables guarantee no order, so several rows are sorted:
-- a new row's version was derived from its old one (trg_mssync_ver_<table>), and sorting both by it puts
-- them in the same order even if keys changed. There is no join: a cached plan of one becomes quadratic.
create or replace function {function}() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off
set datestyle = 'ISO' set intervalstyle = 'postgres' set extra_float_digits = 1
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    several boolean;
    olds text;
    news text;
    salt text;
    {variables}
begin{before}
    select array(select row({old_columns}) from deleted as o limit 1)::text,
           array(select row({new_columns}) from inserted as n limit 1)::text,
           exists (select from deleted offset 1)
    into olds, news, several;
    if olds = '{{}}' then
        return null;
    elsif several then
        salt := {salt};
        select array(select row({old_columns}) from deleted as o
                     order by md5(o.msrepl_tran_version::text || sync.salt)::uuid)::text,
               array(select row({new_columns}) from inserted as n order by n.msrepl_tran_version)::text
        into olds, news;
    end if;
    arguments := quote_literal(olds) || ',' || quote_literal(news);
{ship}
end
$msrepl$;
alter function {function}() owner to {owner};
revoke all on function {function}() from public;
comment on function {function}() is {comment};
