-- msrepl.sysarticles, msrepl.syssubscriptions: what this database publishes, and to which Subscribers.
-- called by: twopc.publisher.publication, twopc.publisher.subscriptions, ddl_guard
-- tables:    themselves
-- holes:     owner
--
-- columns holds the numbers of the chosen columns, which a rename does not change; NULL means all. structure is
-- empty while the procedures are being created. fingerprints are those of msrepl.fingerprints, and NULL while
-- our own code changes them. propagation says how changes travel; destination_procedures, how the default
-- procedures at Subscribers are called. replica_identities holds the replica identities before publishing, of
-- the table and of the partitions where they were changed. parts of a subscription are the numbers of the
-- sysfilteredarticles that it has in place of their base.
set local role {owner};
create table if not exists msrepl.sysarticles (
    article_id integer generated always as identity primary key,
    objid oid not null unique,
    source_schema text not null,
    source_object text not null,
    columns int2[],
    filter_clause text,
    replica_identities jsonb not null default '{{}}',
    altered_keys text[] not null default array[]::text[],
    added_version boolean not null,
    propagation jsonb not null,
    destination_procedures jsonb not null default '{{}}',
    procedures oid[] not null default array[]::oid[],
    structure text not null,
    fingerprints text[],
    stale text,
    unique (source_schema, source_object)
);
comment on table msrepl.sysarticles is 'Articles of this publication; stale says why the procedures no longer fit the table';
create table if not exists msrepl.syssubscriptions (
    subscriber text primary key,
    link_role text not null unique,
    status text not null default 'active' check (status in ('active', 'inactive')),
    parts integer[] not null default array[]::integer[],
    created_at timestamptz not null default clock_timestamp()
);
comment on table msrepl.syssubscriptions is 'Subscriptions with immediate updating, and the role under which each one''s link works';
revoke all on msrepl.sysarticles, msrepl.syssubscriptions from public;
reset role;
