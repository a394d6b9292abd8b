-- Lets a role set session_replication_role.
-- called by: whoever makes an owner or an agent of ours
-- tables:    pg_parameter_acl
-- holes:     role
--
-- Who may set a parameter is one row of a catalog that all databases share: another session that changes it, makes
-- it or removes it is waited for, and then the command has failed.
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
            perform pg_catalog.pg_sleep(0.01); -- caches hear of the other's change a moment after it has let go
        end;
    end loop;
end
$msrepl$;
