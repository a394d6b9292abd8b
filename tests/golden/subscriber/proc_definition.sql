-- msrepl.apply_<article>_definition: applies a routine's new definition, as it is stored.
-- called by: the distribution agent
-- tables:    none
-- holes:     function, article, owner, agent, comment
create or replace function "msrepl"."apply_7_definition"(command text) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    perform msrepl.define_routine(7, command::jsonb ->> 'definition');
end
$msrepl$;
alter function "msrepl"."apply_7_definition"(text) owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."apply_7_definition"(text) from public;
grant execute on function "msrepl"."apply_7_definition"(text) to "msrepl_agent";
comment on function "msrepl"."apply_7_definition"(text) is 'A new definition of public.give_raise(numeric)';
