-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered at the end of the functions that agents call for a table
-- tables:    none
-- holes:     none
--
-- A SET clause would cost a tenth of a call, and would not help: SET outlasts it.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) path then
        raise exception 'an expression, a trigger or a procedure of a table has set search_path'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
