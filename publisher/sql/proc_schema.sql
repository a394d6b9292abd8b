-- msrepl_call: the schema of what is generated for published routines; callers may use it, but nobody else
-- creates objects in it.
-- called by: twopc.publisher.publication
-- tables:    pg_parameter_acl
-- holes:     owner, owner_name
--
-- The gate needs messages in one language, whatever the caller's is: see open_bracket. The privileges on a
-- parameter are one row for all databases: see grant_replica.
create schema if not exists msrepl_call;
revoke all on schema msrepl_call from public;
grant usage on schema msrepl_call to public;
grant usage, create on schema msrepl_call to {owner};
do $msrepl$
begin
    for attempt in 1 .. 100 loop
        begin
            exit when has_parameter_privilege({owner_name}, 'lc_messages', 'set');
            grant set on parameter lc_messages to {owner};
        exception when internal_error or unique_violation then
            if attempt = 100 or sqlerrm !~ '^tuple concurrently|"pg_parameter_acl_parname_index"$' then
                raise;
            end if;
            perform pg_catalog.pg_sleep(0.01); -- caches learn of the change shortly after its lock was released
        end;
    end loop;
end
$msrepl$;
