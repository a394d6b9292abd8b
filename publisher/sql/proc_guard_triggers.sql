-- msrepl_proc_ddl_guard, msrepl_proc_drop_guard: event triggers for DDL on published routines and their tables.
-- called by: DDL in this database, as long as a routine is published
-- tables:    none
-- holes:     none
drop event trigger if exists msrepl_proc_ddl_guard;
drop event trigger if exists msrepl_proc_drop_guard;
create event trigger msrepl_proc_ddl_guard on ddl_command_end
    when tag in ('CREATE FUNCTION', 'CREATE PROCEDURE', 'ALTER FUNCTION', 'ALTER PROCEDURE', 'ALTER ROUTINE',
                 'GRANT', 'REVOKE', 'CREATE TABLE', 'ALTER TABLE', 'CREATE TRIGGER', 'CREATE RULE', 'ALTER SCHEMA')
    execute function msrepl.proc_ddl_guard();
create event trigger msrepl_proc_drop_guard on sql_drop
    execute function msrepl.proc_ddl_guard();
alter event trigger msrepl_proc_ddl_guard enable always;
alter event trigger msrepl_proc_drop_guard enable always;
