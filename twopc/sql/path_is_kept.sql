-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered after calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function itself sets, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', {table_name}
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
