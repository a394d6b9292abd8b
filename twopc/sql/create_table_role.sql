-- The role that writes one published or subscribed table. Expressions and triggers of the table's owner run
-- in its name.
-- called by: twopc.publisher.article_setup, twopc.subscriber.subscription, twopc.subscriber.propagation
-- tables:    none
-- holes:     role, role_text, schema, table_schema, table, privileges, comment
--
-- It owns the functions that write this table for us, and has no other rights: the owner of a table can put code
-- into its constraints, indexes, domains, defaults and triggers.
do $msrepl$
begin
    if not exists (select from pg_roles where rolname = {role_text}) then
        create role {role} nologin;
        comment on role {role} is {comment};
    end if;
end
$msrepl$;
grant usage on schema {schema}, {table_schema} to {role};
grant {privileges} on {table} to {role};
