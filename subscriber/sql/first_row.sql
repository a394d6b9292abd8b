-- fragment: lets an AFTER ROW capture trigger act only at the first row of its statement.
-- called by: rendered into capture triggers of tables that have AFTER ROW triggers of users
-- tables:    the transition table
-- holes:     row, first, source
    if row({row})::text is distinct from (select row({first})::text from {source} as x limit 1) then
        return null;
    end if;
