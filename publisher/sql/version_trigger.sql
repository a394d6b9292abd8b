-- sp_mssync_upd_trig_<table>: the trigger that renews the row version of one published table.
-- called by: every UPDATE of the table
-- tables:    the published table
-- holes:     trigger, table
create or replace trigger {trigger}
    before update on {table}
    for each row execute function msrepl.sp_mssync_upd_trig();
