-- Rights that the role of a subscribed table needs besides the table: agents' commands are applied in its name.
-- called by: twopc.subscriber.propagation
-- tables:    msrepl.msreplication_procedures
-- holes:     role, calls, agent_text
--
-- If agents may bypass row security, so may this role, which has no other table.
grant execute on function msrepl.is_default_procedure(integer, text), msrepl.fires_for_agents(regclass) to {role};
grant execute on function msrepl.raise_unfit_call(text, text, text, text, text) to {role};
grant select on msrepl.msreplication_procedures to {role};
grant {role} to {calls};
do $msrepl$
begin
    if (select r.rolbypassrls from pg_catalog.pg_roles as r where r.rolname = {agent_text}) then
        alter role {role} bypassrls;
    end if;
end
$msrepl$;
