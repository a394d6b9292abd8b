-- msmerge_ref_<artid>: refuses changes of applications at a Subscriber that may not make any.
-- called by: every INSERT, UPDATE or DELETE of a row
-- tables:    the article's table
-- holes:     trigger, table
create trigger {trigger}
    before insert or update or delete on {table}
    for each row execute function msrepl.merge_refuse_change();
alter table {table} enable always trigger {trigger};
