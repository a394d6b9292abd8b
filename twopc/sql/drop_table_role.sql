-- Drops the role that writes a table, once it owns none of our functions any more.
-- called by: twopc.publisher.publication, twopc.subscriber.subscription, twopc.subscriber.propagation
-- tables:    catalogs
-- holes:     role, role_text
do $msrepl$
begin
    if exists (select from pg_roles where rolname = {role_text}) and not exists (
        select from pg_proc as p join pg_roles as r on r.oid = p.proowner
        where r.rolname = {role_text} and p.pronamespace = to_regnamespace('msrepl')
    ) then
        drop owned by {role} cascade;
        drop role {role};
    end if;
end
$msrepl$;
