-- msrepl.msmerge_row_<artid>: the type in which a row of an article is sent, without the column that identifies it.
-- called by: msmerge_write_<artid>, msmerge_log_<artid>
-- tables:    none
-- holes:     type, attributes, owner
create type {type} as ({attributes});
alter type {type} owner to {owner};
