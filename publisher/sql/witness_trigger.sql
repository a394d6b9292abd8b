-- sp_mssync_witness_<table>: watches one published table for changes that triggers make.
-- called by: changes of rows from within another trigger
-- tables:    the published table
-- holes:     trigger, table, arguments
create or replace trigger {trigger}
    after insert or update or delete on {table}
    for each row when (pg_trigger_depth() > 0)
    execute function msrepl.witness({arguments});
