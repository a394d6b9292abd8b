-- The trigger by which a subscribed table is witnessed: for agents alone, after everything else.
-- called by: twopc audit --witness install
-- tables:    the subscribed table
-- holes:     trigger, table, function
create trigger {trigger} after insert or update or delete on {table}
    for each row execute function {function}();
alter table {table} enable replica trigger {trigger};
