-- msrepl_ddl_guard, msrepl_drop_guard, msrepl_rewrite_guard: event triggers for DDL that makes generated objects
-- stale or changes rows.
-- called by: DDL in this database
-- tables:    none
-- holes:     none
--
-- ENABLE ALWAYS: the guard also works in sessions with session_replication_role = replica.
drop event trigger if exists msrepl_ddl_guard;
drop event trigger if exists msrepl_drop_guard;
drop event trigger if exists msrepl_rewrite_guard;
create event trigger msrepl_ddl_guard on ddl_command_end
    when tag in ('ALTER TABLE', 'CREATE TABLE', 'CREATE TRIGGER', 'ALTER TRIGGER', 'CREATE INDEX', 'ALTER INDEX',
                 'CREATE RULE', 'ALTER RULE', 'ALTER SCHEMA', 'ALTER SEQUENCE', 'ALTER TYPE', 'ALTER DOMAIN',
                 'ALTER FUNCTION', 'ALTER ROUTINE', 'ALTER COLLATION', 'ALTER EXTENSION', 'CREATE FOREIGN TABLE',
                 -- objects that it creates have no events of their own
                 'CREATE SCHEMA',
                 -- each of them also renames columns of an ordinary table
                 'ALTER VIEW', 'ALTER MATERIALIZED VIEW', 'ALTER FOREIGN TABLE')
    execute function msrepl.ddl_guard();
create event trigger msrepl_drop_guard on sql_drop
    execute function msrepl.ddl_guard();
create event trigger msrepl_rewrite_guard on table_rewrite
    execute function msrepl.ddl_guard();
alter event trigger msrepl_ddl_guard enable always;
alter event trigger msrepl_drop_guard enable always;
alter event trigger msrepl_rewrite_guard enable always;
