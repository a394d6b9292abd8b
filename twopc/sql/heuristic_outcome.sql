-- msrepl.heuristic_outcome: branches that were finished manually, without waiting for the decision.
-- called by: the coordinator: before a forced outcome, and when it finds one that it did not cause
-- tables:    itself
-- holes:     none
--
-- decided  what the coordinator had decided, or decided later; null: no decision
-- forced   true: forced by our own code, and recorded in advance; false: found afterwards
-- damage   true: the branches of the global transaction ended differently
create table if not exists msrepl.heuristic_outcome (
    id bigint generated always as identity primary key,
    gid text not null,
    node text not null,
    outcome text not null check (outcome in ('committed', 'aborted')),
    decided text check (decided in ('committed', 'aborted')),
    forced boolean not null,
    damage boolean not null,
    reason text not null,
    recorded_by text not null default session_user,
    recorded_at timestamptz not null default clock_timestamp(),
    unique (gid, outcome, forced)
);
comment on table msrepl.heuristic_outcome is 'Branches finished without waiting for the decision';
