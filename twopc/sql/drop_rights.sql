-- Takes from a role whatever it may do and own here and in all databases together.
-- called by: whoever drops a role of ours
-- tables:    catalogs
-- holes:     role
--
-- As in grant_replica: rights to parameters are in one row.
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
            perform pg_catalog.pg_sleep(0.01); -- caches hear of the other's change a moment after it has let go
        end;
    end loop;
end
$msrepl$;
