-- msrepl.merge_conflict_id: identifies a conflict by the change that has lost.
-- called by: msmerge_take_<artid>
-- tables:    none
-- holes:     owner
--
-- A conflict that recurs after a backup was restored is recorded once.
create or replace function msrepl.merge_conflict_id(tablenick integer, guid uuid, lineage int8[], "row" text) returns uuid
language sql immutable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select md5(concat_ws(' ', tablenick, guid, lineage::text, "row"))::uuid
$msrepl$;
alter function msrepl.merge_conflict_id(integer, uuid, int8[], text) owner to {owner};
revoke all on function msrepl.merge_conflict_id(integer, uuid, int8[], text) from public;
comment on function msrepl.merge_conflict_id(integer, uuid, int8[], text) is 'By which a conflict is known';
