-- !trg_mssync_<operation>_<table>: captures one kind of statement on one subscribed table.
-- called by: every such statement, or its first row; fires first, since triggers fire in order of name
-- tables:    the subscribed table
-- holes:     trigger, event, table, referencing, each, function
create or replace trigger {trigger}
    after {event} on {table}
    referencing {referencing}
    for each {each} execute function {function}();
