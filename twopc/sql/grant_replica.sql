-- Lets a role set session_replication_role.
-- called by: code that creates an owner or an agent of ours
-- tables:    pg_parameter_acl
-- holes:     role
--
-- The privileges on a parameter are one row of a catalog that all databases share: if another session changes,
-- creates or removes it, the command waits for that session and then fails.
do $msrepl$
begin
    for attempt in 1 .. 100 loop
        begin
            grant set on parameter session_replication_role to {role};
            exit;
        exception when internal_error or unique_violation then
            if attempt = 100 or sqlerrm !~ '^tuple concurrently|"pg_parameter_acl_parname_index"$' then
                raise;
            end if;
            perform pg_catalog.pg_sleep(0.01); -- caches learn of the change shortly after its lock was released
        end;
    end loop;
end
$msrepl$;
