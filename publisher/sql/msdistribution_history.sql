-- msrepl.msdistribution_history: what the log reader and the agents did, one row per event.
-- called by: the log reader, agents, twopc.publisher.distribution
-- tables:    itself
-- holes:     none
--
-- subscriber   the agent's Subscriber; NULL: the log reader, or clean-up
-- event        started, progress, succeeded, retry, failed, skipped, net, serial, rows, validated, repaired,
--              removed, deactivated
-- error        an error number of SQL Server, or an SQLSTATE
-- xact_seqno   the transaction that the event concerns, or the last of those counted
create table if not exists msrepl.msdistribution_history (
    id bigint generated always as identity primary key,
    publisher_database_id integer not null references msrepl.mspublisher_databases on delete cascade,
    subscriber text,
    event text not null,
    at timestamptz not null default clock_timestamp(),
    duration_ms double precision,
    transactions bigint,
    commands bigint,
    xact_seqno pg_lsn,
    error text,
    message text,
    command text
);
create index if not exists msdistribution_history_by_agent
    on msrepl.msdistribution_history (publisher_database_id, subscriber, id);
comment on table msrepl.msdistribution_history is 'What the log reader and the agents did';
