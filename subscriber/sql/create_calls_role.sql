-- The role that makes calls of published routines here: whatever a routine uses is evaluated in its name.
-- called by: twopc.subscriber.propagation
-- tables:    none
-- holes:     role, role_text
--
-- It is a member of the roles of all subscribed tables, since any of them may be written by a routine; it has
-- no other rights.
do $msrepl$
begin
    if not exists (select from pg_roles where rolname = {role_text}) then
        create role {role} nologin;
        comment on role {role} is 'Makes calls of published routines for replication';
    end if;
end
$msrepl$;
