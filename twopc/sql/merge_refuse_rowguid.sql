-- msrepl.merge_refuse_rowguid: refuses an update of the column that identifies a row at every node.
-- called by: AFTER UPDATE trigger of every article, for a row whose value changed
-- tables:    none
-- holes:     owner
create or replace function msrepl.merge_refuse_rowguid() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    raise exception 'column % of table %.% cannot be updated: rows are known by it at every node (20062)',
        tg_argv[0], tg_table_schema, tg_table_name
        using errcode = 'object_not_in_prerequisite_state',
              hint = 'Delete the row, and insert it with another value.';
end
$msrepl$;
alter function msrepl.merge_refuse_rowguid() owner to {owner};
revoke all on function msrepl.merge_refuse_rowguid() from public;
comment on function msrepl.merge_refuse_rowguid() is 'Refuses an update of the column by which rows are known';
