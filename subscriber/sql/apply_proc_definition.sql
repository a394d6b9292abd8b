-- msrepl.apply_<article>_definition: applies a routine's new definition, as it is stored.
-- called by: the distribution agent
-- tables:    none
-- holes:     function, article, owner, agent, comment
create or replace function {function}(command text) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    perform msrepl.define_routine({article}, command::jsonb ->> 'definition');
end
$msrepl$;
alter function {function}(text) owner to {owner};
revoke all on function {function}(text) from public;
grant execute on function {function}(text) to {agent};
comment on function {function}(text) is {comment};
