-- msrepl.coordinator_epoch: one row per coordinator process and protocol variant, in the distribution
-- database.
-- called by: open_epoch, fence_epochs, log_decisions
-- tables:    itself
-- holes:     none
--
-- epoch    part of every gid; never used again
-- variant  which presumption holds for a branch that the decision log does not name
-- fenced   true: its process is gone, and no decision can be logged in its name any more
--
-- The process is alive as long as somebody holds the advisory lock (1836282469, epoch); it is taken before
-- the row can be seen, and by the session that writes the decisions.
create table if not exists msrepl.coordinator_epoch (
    epoch bigint generated always as identity primary key check (epoch < 2147483648),
    coordinator text not null,
    variant text not null,
    fenced boolean not null default false,
    started_at timestamptz not null default clock_timestamp(),
    fenced_at timestamptz
);
comment on table msrepl.coordinator_epoch is 'One row per coordinator process and protocol variant';
