-- msrepl.held_row: rows of statements that wait until no statement is open any more, a set for each statement.
-- called by: capture triggers of tables that may hold, send_held
-- tables:    itself
-- holes:     owner
--
-- place      number of the statement that changed the rows, among those that were open together
-- relid      the subscribed table
-- old_links  identify the rows as they were (table, key and version); null if they were inserted
-- new_links  identify the rows as they are; null if they were deleted
-- old_keys   key and version of the rows as they were, for an update
-- old_rows   the rows as they were
-- new_rows   the rows as they are
-- moved      by an update, whether values changed that foreign keys with actions refer to
--
-- A table may hold if a foreign key leads to it or from it, or if a unique key of it is checked at the end of
-- a statement: what one statement does must then arrive in another order than its AFTER triggers fire in.
--
-- A set lives no longer than the statement that brought it; the table is logged all the same, see
-- docs/crashes.md. No index: the setting msrepl.held_rows
-- says where a transaction's sets are, and under SERIALIZABLE the pages of an index would make unrelated
-- transactions conflict. The settings are anybody's to change: a set that was held and not sent would be at this
-- site only. So each refers to a row that is never there, which PostgreSQL looks for at the transaction's end and
-- only for sets that are left: neither index nor set is read for it.
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
    -- one of an earlier version
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
