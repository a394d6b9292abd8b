-- trg_mssync_gen_<table>: fills in values that only the Publisher can make.
-- called by: BEFORE INSERT row trigger of the subscribed table, after trg_mssync_fetch_<table>
-- tables:    none
-- holes:     function, missing, take, setting, owner, comment
--
-- INSERT ... RETURNING thus shows the Publisher's values, and the rows still travel in one call. It runs as the role
-- that inserts: an assignment evaluates the checks of a domain, which are code of the domain's owner. Values that the
-- link has printed are parsed with the settings of the link, as in write_back.
create or replace function {function}() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
set datestyle = 'ISO' set intervalstyle = 'postgres' set array_nulls = on set xmloption = content
as $msrepl$
declare
    block jsonb;
    made jsonb;
begin
    if {missing} then
        block := nullif(current_setting({setting}, true), '')::jsonb;
        made := block -> 'rows' -> 0;
        perform set_config({setting}, jsonb_set(block, array['rows'], (block -> 'rows') - 0)::text, true);
        {take}
    end if;
    return new;
end
$msrepl$;
alter function {function}() owner to {owner};
revoke all on function {function}() from public;
comment on function {function}() is {comment};
