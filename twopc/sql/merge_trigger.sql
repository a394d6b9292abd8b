-- msmerge_<operation>_<artid>: has the changes of an article recorded, by applications and by users' triggers.
-- called by: every INSERT, UPDATE or DELETE of the table
-- tables:    the article's table
-- holes:     trigger, event, table, referencing, function
--
-- ALWAYS, for the triggers that fire when an agent writes; the function itself lets an agent's own rows pass.
create trigger {trigger}
    after {event} on {table}
    referencing {referencing}
    for each statement execute function {function}();
alter table {table} enable always trigger {trigger};
