-- msrepl.mssubscription_agents, msrepl.msreplication_objects: the subscription of this database and its tables.
-- called by: twopc.subscriber.subscription, twopc.subscriber.read_only
-- tables:    themselves
-- holes:     owner
create table if not exists msrepl.mssubscription_agents (
    publisher text primary key,
    subscriber text not null,
    publisher_db text not null,
    link text,
    update_mode text not null default 'sync tran' check (update_mode in ('sync tran', 'read only')),
    status text not null default 'active' check (status in ('active', 'inactive')),
    status_reason text
);
comment on table msrepl.mssubscription_agents is 'The subscription: its Publisher, the server object of its link (none where it is read only), and whether it is active';
create table if not exists msrepl.msreplication_objects (
    objid oid primary key,
    dest_schema text not null,
    article text not null,
    created_table boolean not null,
    added_version boolean not null,
    added_keys text[] not null default array[]::text[],
    structure text not null default '',
    routines oid[] not null default array[]::oid[],
    fingerprints text[],
    parents oid[] not null default array[]::oid[],
    sync_calls jsonb not null,
    write_back text,
    stale text,
    unique (dest_schema, article)
);
comment on table msrepl.msreplication_objects is 'Subscribed tables, and what is needed to take the subscription away again';
alter table msrepl.mssubscription_agents owner to {owner};
alter table msrepl.msreplication_objects owner to {owner};
revoke all on msrepl.mssubscription_agents, msrepl.msreplication_objects from public;
