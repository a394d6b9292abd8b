-- msrepl.sysmergeschemachange: the schema changes of the publication, in the order in which every node makes them.
-- called by: twopc.drivers.merge.schema_changes, msrepl.merge_schema_changes, msrepl.merge_check_schema
-- tables:    itself
-- holes:     owner
--
-- The last row says which changes this node has made: it is written in the commit that alters the table.
-- column_number is the place of the column's versions in colv, which no other column ever gets. column_default is the
-- text of a constant.
create table if not exists msrepl.sysmergeschemachange (
    schemaversion integer primary key check (schemaversion > 0),
    schemaguid uuid not null unique,
    artid uuid not null,
    schematype text not null check (schematype in ('add', 'drop', 'widen')),
    column_name text not null,
    column_number integer not null check (column_number > 0),
    column_type text,
    column_default text,
    changed_at timestamptz not null default clock_timestamp()
);
alter table msrepl.sysmergeschemachange owner to {owner};
revoke all on msrepl.sysmergeschemachange from public;
comment on table msrepl.sysmergeschemachange is 'Schema changes, in the order in which every node makes them';
