-- The role that writes one published or subscribed table: in whose name its owner's expressions and triggers run.
-- called by: twopc.publisher.article_setup, twopc.subscriber.subscription, twopc.subscriber.propagation
-- tables:    none
-- holes:     role, role_text, schema, table_schema, table, privileges, comment
--
-- It owns the functions that write this table for us, and may do nothing else: who owns a table of ours may put
-- code of his own into its constraints, indexes, domains, defaults and triggers.
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
