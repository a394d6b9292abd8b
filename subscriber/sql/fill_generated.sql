-- trg_mssync_gen_<table>: fills in values that only the Publisher can make.
-- called by: BEFORE INSERT row trigger of the subscribed table
-- tables:    none here; sequences at the Publisher
-- holes:     function, missing, take, setting, generator, owner, comment
--
-- INSERT ... RETURNING thus shows the Publisher's values, and the rows still travel in one call. Values
-- come in growing blocks, which the transaction keeps in a setting; values that it does not use are a gap
-- in a sequence.
create or replace function {function}() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    block jsonb;
    made jsonb;
begin
    if {missing} then
        block := nullif(current_setting({setting}, true), '')::jsonb;
        if block is null or jsonb_array_length(block -> 'rows') = 0 then
            block := msrepl.fetch_generated({generator}, coalesce((block ->> 'size')::integer, 0));
        end if;
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
