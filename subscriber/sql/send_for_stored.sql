-- fragment: sends a call and asks, in the same message, for what the Publisher stored otherwise.
-- called by: rendered into ship for tables that take rows back
-- tables:    none
-- holes:     link
        select t.stored into sync.stored
        from msrepl_link.dblink({link}, sync.call || $query$;select current_setting('msrepl.stored', true)$query$)
            as t(stored text);
