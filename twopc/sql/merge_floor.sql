-- msrepl.msmerge_floor_<nickname>: the highest version of those rows of one article whose metadata was removed.
-- called by: the triggers of the article; msrepl.merge_clean_up
-- tables:    itself
-- holes:     sequence, owner
--
-- Versions of a row without metadata continue above it. It is a sequence because the present value is read, whatever
-- the snapshot of the application: a transaction that began before a clean-up must not assign a version again.
create sequence {sequence} as integer minvalue 0 start 0;
alter sequence {sequence} owner to {owner};
revoke all on {sequence} from public;
