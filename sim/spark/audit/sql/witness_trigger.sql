-- The trigger that records changes of a subscribed table: for agents only, after all other triggers.
-- called by: twopc audit --witness install
-- tables:    the subscribed table
-- holes:     trigger, table, function
create trigger {trigger} after insert or update or delete on {table}
    for each row execute function {function}();
alter table {table} enable replica trigger {trigger};
