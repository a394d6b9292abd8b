-- msmerge_init_<artid>: refuses changes of a table until the whole snapshot has been delivered.
-- called by: every statement that changes the table, except those that load files, in the replica role
-- tables:    the article's table
-- holes:     trigger, table
create trigger {trigger}
    before insert or update or delete or truncate on {table}
    for each statement execute function msrepl.merge_refuse_uninitialised();
