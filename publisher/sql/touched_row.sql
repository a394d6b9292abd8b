-- msrepl.touched_row: rows of the table being synchronised that a trigger has changed again.
-- called by: witness, check_touched
-- tables:    itself
-- holes:     owner
--
-- Unlogged: a row lives no longer than the sync procedure that brought it. The setting msrepl.touched says
-- where the rows are: an index, or a scan, would make unrelated transactions conflict under SERIALIZABLE.
set local role {owner};
create unlogged table if not exists msrepl.touched_row (
    xid xid8 not null,
    key jsonb not null,
    cause text not null
);
revoke all on msrepl.touched_row from public;
comment on table msrepl.touched_row is 'Rows of the table being synchronised that a trigger has changed again';
reset role;
