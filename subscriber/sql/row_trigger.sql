-- ~trg_mssync_ver_<table>, ~trg_mssync_new_<table>, !trg_mssync_gen_<table>: change a row before it is stored;
-- !trg_mssync_fetch_<table>: prepares that.
-- called by: every such change of a row
-- tables:    the subscribed table
-- holes:     trigger, event, table, function
create or replace trigger {trigger}
    before {event} on {table}
    for each row execute function {function}();
