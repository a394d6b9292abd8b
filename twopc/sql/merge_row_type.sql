-- msrepl.msmerge_row_<artid>: a row of an article on its way, without the column by which it is known.
-- called by: msmerge_write_<artid>, msmerge_log_<artid>
-- tables:    none
-- holes:     type, attributes, owner
create type {type} as ({attributes});
alter type {type} owner to {owner};
