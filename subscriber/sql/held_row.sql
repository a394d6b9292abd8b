-- msrepl.held_row: rows of statements that are held until no statement is open any more, one set per statement.
-- called by: capture triggers of tables that may hold rows, send_held
-- tables:    itself
-- holes:     owner
--
-- place      number of the statement that changed the rows, among those that were open together
-- relid      the subscribed table
-- old_links  identify the old rows (table, key and version); null if the rows were inserted
-- new_links  identify the new rows; null if the rows were deleted
-- old_keys   key and version of the old rows, for an update
-- old_rows   the rows before the statement
-- new_rows   the rows after the statement
-- moved      for an update, whether values changed to which foreign keys with actions refer
--
-- A table may hold rows if a foreign key refers to it or belongs to it, if one of its unique keys is checked at the end
-- of a statement, or if it has BEFORE ROW triggers of users: the changes of one statement must then arrive in another
-- order than that in which its AFTER triggers fire.
--
-- A set exists no longer than the statement that inserted it; the table is logged all the same, see
-- docs/crashes.md. There is no index: the setting msrepl.held_rows says where a transaction's sets are, and under
-- SERIALIZABLE the pages of an index would make unrelated transactions conflict. Any role may change the
-- settings, and a set that was held and not sent would be at this site only. Each set therefore refers to a row
-- that never exists: PostgreSQL looks for it at the end of the transaction, only for sets that are left, and
-- without reading an index or the set.
create table if not exists msrepl.never (never boolean primary key check (not never));
create table if not exists msrepl.held_row (
    xid xid8 not null,
    place integer not null,
    relid oid not null,
    old_links uuid[],
    new_links uuid[],
    old_keys text[],
    old_rows text[],
    new_rows text[],
    moved boolean[],
    never boolean not null default true
        constraint held_rows_are_sent references msrepl.never deferrable initially deferred
);
do $msrepl$
begin
    -- a table of an earlier version
    if (select relpersistence = 'u' from pg_catalog.pg_class where oid = 'msrepl.held_row'::pg_catalog.regclass) then
        alter table msrepl.held_row set logged;
    end if;
    if not exists (select from pg_catalog.pg_constraint
                   where conrelid = 'msrepl.held_row'::pg_catalog.regclass and conname = 'held_rows_are_sent') then
        alter table msrepl.held_row
            add column never boolean not null default true
                constraint held_rows_are_sent references msrepl.never deferrable initially deferred;
    end if;
end
$msrepl$;
alter table msrepl.never owner to {owner};
alter table msrepl.held_row owner to {owner};
revoke all on msrepl.never, msrepl.held_row from public;
comment on table msrepl.never is 'Has no rows: what refers to it must be gone when its transaction ends';
comment on table msrepl.held_row is 'Rows of statements that wait until no statement is open any more';
