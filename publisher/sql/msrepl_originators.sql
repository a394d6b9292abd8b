-- msrepl.msrepl_originators: the possible originators of changes: Subscribers with immediate updating.
-- called by: twopc.publisher.distribution; the log reader; agents, which look up their own row
-- tables:    itself
-- holes:     none
--
-- srvname    the Subscriber's node name
-- dbname     its database
-- link_role  role of its link at the Publisher, which branch markers hold as originator
create table if not exists msrepl.msrepl_originators (
    id integer generated always as identity primary key,
    publisher_database_id integer not null references msrepl.mspublisher_databases on delete cascade,
    srvname text not null,
    dbname text not null,
    link_role text not null,
    unique (publisher_database_id, srvname),
    unique (publisher_database_id, link_role)
);
comment on table msrepl.msrepl_originators is 'Subscribers as originators of changes';
