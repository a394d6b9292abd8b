-- !trg_mssync_open_<table>, !trg_mssync_end_<operation>_<table>: count the open statements.
-- called by: every statement on a subscribed table that may hold rows
-- tables:    the subscribed table
-- holes:     trigger, when, table, function
create or replace trigger {trigger}
    {when} on {table}
    for each statement execute function {function}();
