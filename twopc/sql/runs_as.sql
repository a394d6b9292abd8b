-- fragment: raises an error if a function that runs code of a table's owner does not run as its own owner.
-- called by: rendered at the beginning of functions of a table's role
-- tables:    none
-- holes:     role_text
--
-- That code also runs as the function's owner, and can remove SECURITY DEFINER or search_path from the function.
    if current_user operator(pg_catalog.<>) {role_text} then
        raise exception 'this function must run as its owner %, and runs as %', {role_text}, current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
