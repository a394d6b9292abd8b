-- msrepl.decision: the decision log. A row exists from the decision until every branch is settled.
-- called by: log_decisions, the coordinator, recovery
-- tables:    itself
-- holes:     none
--
-- kind          commit or abort; collecting: presumed commit has recorded its participants
-- participants  the sites concerned; of a commit, those that are prepared
create table if not exists msrepl.decision (
    epoch bigint not null,
    sequence bigint not null,
    coordinator text not null,
    kind text not null check (kind in ('collecting', 'commit', 'abort')),
    participants text[] not null,
    decided_at timestamptz not null default clock_timestamp(),
    primary key (epoch, sequence)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);
comment on table msrepl.decision is 'The decision log: from the decision until every branch is settled';
