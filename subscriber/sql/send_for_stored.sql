-- fragment: sends a call and asks, in the same message, for what the Publisher stored otherwise.
-- called by: rendered into ship for tables that take rows back
-- tables:    none
-- holes:     none
        sync.stored := msrepl.query_link(sync.call || $query$;select current_setting('msrepl.stored', true)$query$);
