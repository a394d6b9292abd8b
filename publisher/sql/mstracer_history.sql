-- msrepl.mstracer_tokens, msrepl.mstracer_history: when each tracer token was posted, stored and delivered.
-- called by: the log reader, agents; code that shows latencies
-- tables:    themselves
-- holes:     none
--
-- distributor_commit, subscriber_commit  NULL, or no row: the token has not arrived there yet
create table if not exists msrepl.mstracer_tokens (
    publisher_database_id integer not null references msrepl.mspublisher_databases on delete cascade,
    tracer_id bigint not null,
    publisher_commit timestamptz,
    distributor_commit timestamptz,
    primary key (publisher_database_id, tracer_id)
);
create table if not exists msrepl.mstracer_history (
    publisher_database_id integer not null references msrepl.mspublisher_databases on delete cascade,
    tracer_id bigint not null,
    subscriber text not null,
    subscriber_commit timestamptz,
    primary key (publisher_database_id, tracer_id, subscriber)
);
comment on table msrepl.mstracer_tokens is 'Tracer tokens: when each was committed at the Publisher and stored here';
comment on table msrepl.mstracer_history is 'Tracer tokens: when each was delivered to a Subscriber';
