-- msrepl.refuse_truncate: refuses TRUNCATE, which names no rows and can be neither compared nor replicated.
-- called by: BEFORE TRUNCATE trigger of every published or subscribed table
-- tables:    none
-- holes:     owner
create or replace function msrepl.refuse_truncate() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    raise exception 'table %.% is replicated: TRUNCATE is refused', tg_table_schema, tg_table_name
        using errcode = 'feature_not_supported',
              hint = 'Use DELETE, or drop the article first.';
end
$msrepl$;
alter function msrepl.refuse_truncate() owner to {owner};
revoke all on function msrepl.refuse_truncate() from public;
comment on function msrepl.refuse_truncate() is 'Refuses TRUNCATE of a replicated table';
