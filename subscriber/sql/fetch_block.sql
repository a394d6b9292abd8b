-- trg_mssync_fetch_<table>: fetches a block of values that only the Publisher can make, if none is left.
-- called by: BEFORE INSERT row trigger of the subscribed table
-- tables:    none here; sequences at the Publisher
-- holes:     function, missing, setting, generator, owner, comment
--
-- Values come in growing blocks, which the transaction keeps in a setting; values that it does not use are a gap in a
-- sequence. This function may use the link, and so assigns nothing to the row: see fill_generated.
create or replace function {function}() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    block jsonb;
begin
    if {missing} then
        block := nullif(current_setting({setting}, true), '')::jsonb;
        if block is null or jsonb_array_length(block -> 'rows') = 0 then
            block := msrepl.fetch_generated({generator}, coalesce((block ->> 'size')::integer, 0));
            perform set_config({setting}, block::text, true);
        end if;
    end if;
    return new;
end
$msrepl$;
alter function {function}() owner to {owner};
revoke all on function {function}() from public;
comment on function {function}() is {comment};
