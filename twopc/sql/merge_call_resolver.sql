-- msmerge_call_<artid>: calls the SQL resolver of an article.
-- called by: msmerge_ask_<artid>
-- tables:    none
-- holes:     function, owner, owner_text, role_comment, runs_as, schema, target_schema, target, caller, comment
--
-- It runs in the name of a role that exists for this article alone, owns nothing but this function, and has no other
-- right than to call the resolver: what a resolver does with the role concerns no other table.
do $msrepl$
begin
    if not exists (select from pg_roles where rolname = {owner_text}) then
        create role {owner} nologin;
        comment on role {owner} is {role_comment};
    end if;
end
$msrepl$;
grant usage on schema {schema}, {target_schema} to {owner};
grant execute on function {target}(jsonb) to {owner};
create or replace function {function}(conflict jsonb) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
{runs_as}
    return {target}(conflict);
end
$msrepl$;
alter function {function}(jsonb) owner to {owner};
revoke all on function {function}(jsonb) from public;
grant execute on function {function}(jsonb) to {caller};
comment on function {function}(jsonb) is {comment};
