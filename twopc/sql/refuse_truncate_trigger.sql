-- trg_mssync_truncate_<table>: refuses TRUNCATE of one replicated table.
-- called by: every TRUNCATE of the table
-- tables:    none
-- holes:     trigger, table
create or replace trigger {trigger}
    before truncate on {table}
    for each statement execute function msrepl.refuse_truncate();
