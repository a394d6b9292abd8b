-- The role that makes calls of published routines here: whatever a routine touches is evaluated in its name.
-- called by: twopc.subscriber.propagation
-- tables:    none
-- holes:     role, role_text
--
-- A member of the roles of all subscribed tables, since nobody knows which of them a routine writes; it may do
-- nothing else.
do $msrepl$
begin
    if not exists (select from pg_roles where rolname = {role_text}) then
        create role {role} nologin;
        comment on role {role} is 'Makes calls of published routines for replication';
    end if;
end
$msrepl$;
