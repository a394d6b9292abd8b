-- Rights of a merge agent's role: in one database, for one neighbour.
-- called by: twopc.drivers.merge.neighbours
-- tables:    msrepl.msmerge_genhistory
-- holes:     agent
--
-- MAINTAIN lets it lock the table of generations, and gives it nothing else of use; it reads no table.
grant usage on schema msrepl to {agent};
grant maintain on msrepl.msmerge_genhistory to {agent};
grant execute on function msrepl.merge_hello(), msrepl.merge_articles(), msrepl.merge_schema_changes(), msrepl.merge_check_schema(integer), msrepl.merge_knows(int8, uuid), msrepl.merge_close(), msrepl.merge_refuse_rewritten(), msrepl.merge_rewind(),
    msrepl.merge_begin_anew(int8, int8), msrepl.merge_settle(int8, int8), msrepl.merge_introduce(jsonb),
    msrepl.merge_ranges(), msrepl.merge_ranges_held(), msrepl.merge_knows_ranges(uuid[], int8[]), msrepl.merge_note_ranges(),
    msrepl.merge_learn_ranges(uuid, int8[], int8[], int8), msrepl.merge_withdraw_ranges(uuid), msrepl.merge_allot(uuid, int8, int8), msrepl.merge_receive_ranges(uuid, int8[], int8[], int8[]),
    msrepl.merge_end_session(real, boolean, boolean, text, uuid[], smallint[], integer[], integer[], integer[], integer[], integer[]),
    msrepl.merge_apply(uuid, uuid[], boolean[], text[], text[], int8[], text[], boolean, text[]),
    msrepl.merge_outgoing_conflicts(), msrepl.merge_release_conflicts(uuid[]),
    msrepl.merge_log_conflicts(uuid[], uuid[], uuid[], text[], int8[], smallint[], text[], text[], text[], timestamptz[], text[]),
    msrepl.merge_record_failures(uuid, uuid[], boolean[], text[], text[], text[], boolean),
    msrepl.merge_touch_mappings(uuid, uuid[], boolean), msrepl.merge_receive(int8, uuid, boolean), msrepl.merge_acknowledge(int8, uuid, uuid[], uuid[]) to {agent};
