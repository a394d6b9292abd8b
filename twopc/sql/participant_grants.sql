-- Rights of the coordinator's role in a participant's database: to settle branches, remove their
-- markers, and read them.
-- called by: twopc.drivers.install
-- tables:    msrepl.branch_marker
-- holes:     coordinator
grant usage on schema msrepl to {coordinator};
grant select on msrepl.branch_marker to {coordinator};
grant execute on function msrepl.introduce_coordinator(text, text, bigint, bytea) to {coordinator};
grant execute on function msrepl.fence_branch(text, text[]) to {coordinator};
grant execute on function msrepl.forget_branches(text[]) to {coordinator};
grant execute on function msrepl.release_branches(text[]) to {coordinator};
grant execute on function msrepl.forget_epoch(text, integer) to {coordinator};
