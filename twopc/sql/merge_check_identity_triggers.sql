-- msmerge_idc_<artid>, msmerge_idu_<artid>: check identity values that an application sets.
-- called by: every INSERT; an UPDATE of a row that changes the value
-- tables:    the article's table
-- holes:     insert_trigger, update_trigger, table, column, function
create trigger {insert_trigger}
    after insert on {table}
    referencing new table as inserted
    for each statement execute function {function}();
create trigger {update_trigger}
    after update of {column} on {table}
    for each row when (old.{column} operator(pg_catalog.<>) new.{column}) execute function {function}();
alter table {table} enable always trigger {insert_trigger};
alter table {table} enable always trigger {update_trigger};
