-- Rights of the coordinator's role in the distribution database.
-- called by: twopc.drivers.install
-- tables:    msrepl.coordinator_epoch, msrepl.living_epoch, msrepl.decision, msrepl.heuristic_outcome
-- holes:     coordinator
grant usage on schema msrepl to {coordinator};
grant select, insert, update, delete on msrepl.coordinator_epoch, msrepl.decision to {coordinator};
grant select on msrepl.living_epoch to {coordinator};
grant select, insert, update on msrepl.heuristic_outcome to {coordinator};
