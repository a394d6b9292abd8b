-- msmerge_<operation>_<artid>: records the changes of an article that applications and users' triggers make.
-- called by: every INSERT, UPDATE or DELETE of the table
-- tables:    the article's table
-- holes:     trigger, event, table, referencing, function
--
-- ENABLE ALWAYS, for users' triggers that fire when an agent writes; the function itself ignores an agent's own rows.
create trigger {trigger}
    after {event} on {table}
    referencing {referencing}
    for each statement execute function {function}();
alter table {table} enable always trigger {trigger};
