-- msmerge_log_<artid>: keeps a row that has lost a conflict, or could not be applied.
-- called by: msmerge_take_<artid>, msrepl.merge_record_failure
-- tables:    msmerge_conflict_<publication>_<article>
-- holes:     function, runs_as, conflict_table, rowguid, columns, row_type, excluded, owner, caller, comment
create or replace function {function}(conflict_id uuid, guid uuid, "row" text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
begin
{runs_as}
    insert into {conflict_table} as c (msrepl_conflict_id, {rowguid}, {columns})
    select $1, $2, (r.v).* from (select $3::{row_type} as v) as r
    on conflict (msrepl_conflict_id) do update set {excluded};
end
$msrepl$;
alter function {function}(uuid, uuid, text) owner to {owner};
revoke all on function {function}(uuid, uuid, text) from public;
grant execute on function {function}(uuid, uuid, text) to {caller};
comment on function {function}(uuid, uuid, text) is {comment};
