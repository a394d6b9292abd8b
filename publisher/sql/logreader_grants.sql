-- Rights of the log reader's role in the distribution database: to append, to advance its own position, and to
-- remove parts of a transaction that it stores again (see msrepl.keep_stored).
-- called by: twopc.publisher.distribution
-- tables:    those of the distribution database
-- holes:     logreader
grant usage on schema msrepl to {logreader};
grant select on msrepl.mspublisher_databases, msrepl.msrepl_originators, msrepl.msarticles,
    msrepl.msarticle_shapes, msrepl.mssubscriptions, msrepl.msrepl_transactions, msrepl.mstracer_tokens to {logreader};
grant update (
    read_to, last_seqno, slot_limit, last_commit, read_at, last_error, horizon, open_seqno, open_xid, open_originator,
    open_pid, open_count
) on msrepl.mspublisher_databases to {logreader};
grant insert, delete on msrepl.msrepl_blocks to {logreader};
grant insert on msrepl.msdistribution_history, msrepl.mstracer_tokens to {logreader};
grant update (publisher_commit, distributor_commit) on msrepl.mstracer_tokens to {logreader};
grant select (publisher_database_id, last_seqno, transactions, commands), update (command_originators)
    on msrepl.msrepl_blocks to {logreader};
grant execute on function msrepl.log_was_read(integer, pg_lsn, bigint, pg_lsn, timestamptz, xid8, boolean, pg_lsn),
    msrepl.part_was_read(integer, pg_lsn, bigint, pg_lsn, xid8, integer, boolean),
    msrepl.drop_parts(integer),
    msrepl.refuse_store(integer, pg_lsn, bigint) to {logreader};
