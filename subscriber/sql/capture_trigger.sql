-- !trg_mssync_<operation>_<table>: captures one kind of statement on one subscribed table.
-- called by: every such statement; fires first, because PostgreSQL fires by name
-- tables:    the subscribed table
-- holes:     trigger, event, table, referencing, function
create or replace trigger {trigger}
    after {event} on {table}
    referencing {referencing}
    for each statement execute function {function}();
