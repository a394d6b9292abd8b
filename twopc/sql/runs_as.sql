-- fragment: makes sure that a function that runs code of a table's owner runs in the name of its own owner.
-- called by: rendered into functions of a table's role, first
-- tables:    none
-- holes:     role_text
--
-- That code runs as the function's owner too, who may take SECURITY DEFINER or search_path away from it.
    if current_user operator(pg_catalog.<>) {role_text} then
        raise exception 'this function must run as its owner %, and runs as %', {role_text}, current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
