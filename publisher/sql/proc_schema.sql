-- msrepl_call: the schema of what is made of published routines; callers find it, nobody puts anything in it.
-- called by: publisher.publication
-- tables:    none
-- holes:     owner, owner_name
--
-- The gate has messages in one language, whatever the caller's is: see open_bracket.
create schema if not exists msrepl_call;
revoke all on schema msrepl_call from public;
grant usage on schema msrepl_call to public;
grant usage, create on schema msrepl_call to {owner};
do $msrepl$
begin
    if not has_parameter_privilege({owner_name}, 'lc_messages', 'set') then
        grant set on parameter lc_messages to {owner};
    end if;
end
$msrepl$;
