-- Rights of a distribution agent's role in the distribution database: to read, and to report its progress.
-- called by: twopc.publisher.distribution
-- tables:    those of the distribution database
-- holes:     agent
grant usage on schema msrepl to {agent};
grant select on msrepl.mspublisher_databases, msrepl.msrepl_originators, msrepl.msarticles,
    msrepl.msarticle_shapes, msrepl.mssubscriptions, msrepl.msdistribution_agents, msrepl.msrepl_blocks, msrepl.msrepl_transactions,
    msrepl.msrepl_commands, msrepl.mstracer_tokens, msrepl.mstracer_history to {agent};
grant execute on function msrepl.transactions_between(integer, pg_lsn, pg_lsn),
    msrepl.commands_between(integer, pg_lsn, pg_lsn) to {agent};
grant update (delivered, delivered_at, runstatus, runstatus_at, last_error)
    on msrepl.msdistribution_agents to {agent};
grant insert on msrepl.msdistribution_history, msrepl.mstracer_history to {agent};
grant update (subscriber_commit) on msrepl.mstracer_history to {agent};
