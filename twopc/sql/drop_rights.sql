-- Removes all that a role owns and may do, in this database and in what all databases share.
-- called by: code that drops a role of ours
-- tables:    catalogs
-- holes:     role
--
-- As in grant_replica: the privileges on a parameter are one row.
do $msrepl$
begin
    for attempt in 1 .. 100 loop
        begin
            drop owned by {role} cascade;
            exit;
        exception when internal_error then
            if attempt = 100 or sqlerrm !~ '^tuple concurrently' then
                raise;
            end if;
            perform pg_catalog.pg_sleep(0.01); -- caches learn of the change shortly after its lock was released
        end;
    end loop;
end
$msrepl$;
