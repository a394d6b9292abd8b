-- msmerge_ask_<artid>: asks the SQL resolver of an article about a conflict.
-- called by: merge agents at the Publisher, once the rows of the conflict are locked
-- tables:    none
-- holes:     function, role, role_text, runs_as, schema, target_schema, target, comment
--
-- It runs in the name of a role that owns such functions and has no other rights than to call resolvers. What it
-- raises is an answer, too, but for what concerns the transaction as a whole.
do $msrepl$
begin
    if not exists (select from pg_roles where rolname = {role_text}) then
        create role {role} nologin;
        comment on role {role} is 'Calls resolvers of merge replication';
    end if;
end
$msrepl$;
grant usage on schema {schema}, {target_schema} to {role};
grant execute on function {target}(jsonb) to {role};
create or replace function {function}(conflict jsonb) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
{runs_as}
    return jsonb_build_object('answer', {target}(conflict));
exception
    when transaction_rollback or lock_not_available or insufficient_resources or operator_intervention then
        raise;
    when others then
        return jsonb_build_object('error', format('%s (%s)', sqlerrm, sqlstate));
end
$msrepl$;
alter function {function}(jsonb) owner to {role};
revoke all on function {function}(jsonb) from public;
comment on function {function}(jsonb) is {comment};
