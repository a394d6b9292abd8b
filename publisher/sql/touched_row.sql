-- msrepl.touched_row: rows of the table being synchronised that a trigger has changed again.
-- called by: witness, check_touched
-- tables:    itself
-- holes:     owner
--
-- Unlogged: a row lives no longer than the sync procedure that brought it.
create unlogged table if not exists msrepl.touched_row (
    xid xid8 not null,
    key jsonb not null,
    cause text not null
);
alter table msrepl.touched_row owner to {owner};
revoke all on msrepl.touched_row from public;
comment on table msrepl.touched_row is 'Rows of the table being synchronised that a trigger has changed again';
