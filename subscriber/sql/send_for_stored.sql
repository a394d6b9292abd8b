-- fragment: sends a call and fetches, in the same message, what the Publisher stored differently.
-- called by: rendered into ship for tables whose rows are written back
-- tables:    none
-- holes:     none
        sync.stored := msrepl.query_link(sync.call || $query$;select current_setting('msrepl.stored', true)$query$);
