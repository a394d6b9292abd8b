-- ~sp_mssync_upd_trig_<table>: the trigger that gives the rows of one published table their versions.
-- called by: every INSERT and UPDATE of the table
-- tables:    the published table
-- holes:     trigger, table, role, more
--
-- ENABLE ALWAYS: a change made under session_replication_role = replica would otherwise keep the row
-- version, and a Subscriber's stale copy would pass the check.
create or replace trigger {trigger}
    before insert or update on {table}
    for each row execute function msrepl.sp_mssync_upd_trig({role}{more});
alter table {table} enable always trigger {trigger};
