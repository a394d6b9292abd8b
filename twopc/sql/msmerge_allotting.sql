-- msrepl.msmerge_allotting: the last transaction that has begun to allot identity values at this node.
-- called by: msrepl.merge_allot_ranges, msrepl.merge_await_allotments
-- tables:    itself
-- holes:     owner
--
-- It is a sequence, which no snapshot hides: code that judges a value by the ranges in its snapshot sees here whether
-- those are all.
create sequence if not exists msrepl.msmerge_allotting as bigint minvalue 0 start 0;
alter sequence msrepl.msmerge_allotting owner to {owner};
revoke all on msrepl.msmerge_allotting from public;
