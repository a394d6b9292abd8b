-- msrepl.msmerge_floor_<nickname>: the highest version of a row of one article of which is forgotten what was known.
-- called by: the triggers of the article; msrepl.merge_clean_up
-- tables:    itself
-- holes:     sequence, owner
--
-- A row of which nothing is known goes on above it. A sequence, because its value is read as it is now, whatever the
-- snapshot of the application: one that began before a clean-up must not give a version again.
create sequence {sequence} as integer minvalue 0 start 0;
alter sequence {sequence} owner to {owner};
revoke all on {sequence} from public;
