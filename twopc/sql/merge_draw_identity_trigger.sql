-- msmerge_idn_<artid>: gives rows that are inserted without an identity value the next one.
-- called by: every INSERT at a Subscriber, for each row without a value
-- tables:    the article's table
-- holes:     trigger, table, column, function
--
-- A trigger, not a default: applications need no right to a function or a sequence.
create trigger {trigger}
    before insert on {table}
    for each row when (new.{column} is null) execute function {function}();
alter table {table} enable always trigger {trigger};
