-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered into what agents call for a table, last
-- tables:    none
-- holes:     none
--
-- A SET clause would cost a tenth of a call, and would not help: SET outlasts it.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) path then
        raise exception 'an expression, a trigger or a procedure of a table has set search_path'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
