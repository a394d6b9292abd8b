-- Rights of a published table's role to what its functions call, and read besides the table.
-- called by: twopc.publisher.rights
-- tables:    msrepl.syssubscriptions
-- holes:     role
grant execute on function msrepl.await_branches(oid[]), msrepl.check_touched(text, jsonb[]) to {role};
grant execute on function msrepl.raise_conflict(text, text, integer, text, jsonb, text, text, jsonb, text, text[]) to {role};
grant select (link_role, parts) on msrepl.syssubscriptions to {role};
