-- msrepl_ddl_guard, msrepl_drop_guard: watch for DDL that makes generated objects stale.
-- called by: DDL in this database
-- tables:    none
-- holes:     none
drop event trigger if exists msrepl_ddl_guard;
drop event trigger if exists msrepl_drop_guard;
create event trigger msrepl_ddl_guard on ddl_command_end
    when tag in ('ALTER TABLE', 'CREATE TRIGGER', 'ALTER TRIGGER', 'CREATE INDEX', 'CREATE TABLE')
    execute function msrepl.ddl_guard();
create event trigger msrepl_drop_guard on sql_drop
    when tag in ('ALTER TABLE', 'DROP TABLE', 'DROP TRIGGER', 'DROP INDEX', 'DROP SCHEMA', 'DROP TYPE', 'DROP DOMAIN', 'DROP OWNED', 'DROP EXTENSION')
    execute function msrepl.ddl_guard();
