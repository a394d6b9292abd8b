-- msrepl_merge_drop_guard: checks what was dropped.
-- called by: DROP in a database that is published for merging
-- tables:    none
-- holes:     none
--
-- ENABLE ALWAYS: it also fires in sessions in the replica role.
drop event trigger if exists msrepl_merge_drop_guard;
create event trigger msrepl_merge_drop_guard on sql_drop execute function msrepl.merge_drop_guard();
alter event trigger msrepl_merge_drop_guard enable always;
