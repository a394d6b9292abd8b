-- msmerge_guid_<artid>: refuses an update of the column that identifies rows.
-- called by: every UPDATE of the table that changes the column, including one by a user's BEFORE trigger
-- tables:    the article's table
-- holes:     trigger, table, rowguid, name
create trigger {trigger}
    after update on {table}
    for each row when (old.{rowguid} operator(pg_catalog.<>) new.{rowguid})
    execute function msrepl.merge_refuse_rowguid({name});
alter table {table} enable always trigger {trigger};
