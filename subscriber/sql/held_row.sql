-- msrepl.held_row: rows of statements that wait until no statement is open any more.
-- called by: capture triggers of tables that may hold, send_held
-- tables:    itself
-- holes:     owner
--
-- place     number of the statement that changed the row, among those that were open together
-- relid     the subscribed table
-- old_link  identifies the row as it was (table, key and version); null if it was inserted
-- new_link  identifies the row as it is; null if it was deleted
-- old_key   key and version of the row as it was
-- old_row   the row as it was
-- new_row   the row as it is
-- moved     it was updated, and values changed that foreign keys with actions refer to
--
-- A table may hold if a foreign key leads to it or from it, or if a unique key of it is checked at the end of
-- a statement: what one statement does must then arrive in another order than its AFTER triggers fire in.
--
-- Unlogged: a row lives no longer than the statement that brought it.
create unlogged table if not exists msrepl.held_row (
    xid xid8 not null,
    place integer not null,
    relid oid not null,
    old_link uuid,
    new_link uuid,
    old_key text,
    old_row text,
    new_row text,
    moved boolean not null default false
);
create index if not exists held_row_xid on msrepl.held_row (xid);
alter table msrepl.held_row owner to {owner};
revoke all on msrepl.held_row from public;
comment on table msrepl.held_row is 'Rows of statements that wait until no statement is open any more';
