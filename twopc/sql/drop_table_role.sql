-- Drops the role that writes a table, once it owns none of our functions any more.
-- called by: twopc.publisher.publication, twopc.subscriber.subscription, twopc.subscriber.propagation
-- tables:    catalogs
-- holes:     role, role_text
--
-- If another database, which is a copy of this one, has objects of the role, it stays; nobody can log in with it.
do $msrepl$
begin
    if exists (select from pg_roles where rolname = {role_text}) and not exists (
        select from pg_proc as p join pg_roles as r on r.oid = p.proowner
        where r.rolname = {role_text} and p.pronamespace = to_regnamespace('msrepl')
    ) then
        drop owned by {role} cascade;
        begin
            drop role {role};
        exception
            when dependent_objects_still_exist then
                null;
        end;
    end if;
end
$msrepl$;
