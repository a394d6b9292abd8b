-- msrepl.sysmergearticles: the tables that merge replication tracks in this database.
-- called by: twopc.drivers.merge.tracking
-- tables:    itself
-- holes:     owner
--
-- artid and nickname are the same at every node. rowguid is the column that identifies a row everywhere; columns are
-- those that are replicated; column_numbers says which of the versions in colv belongs to which of them. checked_keys
-- are the foreign keys and the deferrable unique keys whose triggers on this table are enabled ALWAYS, so that they are
-- checked for agents too; altered_keys are foreign keys that were made deferrable for agents. cleanup_waits are the
-- transactions for whose end a clean-up waits. identity_sequence gives the values of a column with identity ranges at
-- the topmost Publisher, and counts places at a Subscriber; ranges are numbers of values, as in SQL Server, and the
-- threshold is in per cent. identity_passed are the values that nobody draws from the sequence, since Subscribers of a
-- restored Publisher hold them.
create table if not exists msrepl.sysmergearticles (
    artid uuid primary key,
    nickname integer not null unique,
    objid oid not null unique,
    source_schema text not null,
    source_object text not null,
    rowguid text not null,
    added_rowguid boolean not null,
    column_tracking boolean not null,
    columns text[] not null,
    column_numbers integer[] not null,
    created_table boolean not null default false,
    publication text not null,
    article_resolver text,
    compensate_for_errors boolean not null default false,
    upload_options text not null default 'normal' check (upload_options in ('normal', 'kept', 'refused')),
    delete_tracking boolean not null default true,
    conflict_table text not null,
    conflict_logging text not null default 'publisher' check (conflict_logging in ('publisher', 'subscriber', 'both')),
    conflict_retention integer not null default 14 check (conflict_retention >= 0),
    checked_keys text[] default array[]::text[],
    altered_keys text[] not null default array[]::text[],
    cleanup_waits text[] not null default array[]::text[],
    identity_column text,
    identity_sequence oid,
    identity_step int8,
    identity_range int8,
    pub_identity_range int8,
    identity_threshold integer,
    identity_passed int8multirange not null default '{{}}',
    unique (source_schema, source_object)
);
alter table msrepl.sysmergearticles owner to {owner};
revoke all on msrepl.sysmergearticles from public;
comment on table msrepl.sysmergearticles is 'Tables tracked for merge replication';
