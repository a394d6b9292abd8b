-- msrepl.msrepl_originators: where a change may come from: the Subscribers with immediate updating.
-- called by: twopc.publisher.distribution; the log reader and agents, which look for themselves
-- tables:    itself
-- holes:     none
--
-- srvname    the Subscriber's node name
-- dbname     its database
-- link_role  under which its link works at the Publisher: what a branch marker holds as originator
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
