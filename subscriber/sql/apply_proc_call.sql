-- msrepl.apply_<article>_call: makes one call of a routine, as it is stored.
-- called by: the distribution agent
-- tables:    those that the routine uses
-- holes:     function, invocation, given, identity, runs_as, path_stays, owner, agent, comment
--
-- The caller's settings apply to the call alone: other commands of the same commit must not see them. The
-- rights are those of the role of calls. No search_path is set: the caller's applies.
create or replace function {function}(command text) returns void
language plpgsql security definer
as $msrepl$
declare
    path constant text := pg_catalog.current_setting('search_path');
    stored pg_catalog.jsonb := command::pg_catalog.jsonb;
    failure pg_catalog.text := stored ->> 'f';
    settings pg_catalog.jsonb := coalesce(stored -> 's', '{{}}');
    types pg_catalog.jsonb := stored -> 't';
    given pg_catalog.text[];
    before pg_catalog.jsonb;
begin
{runs_as}    select pg_catalog.array_agg(v.value order by v.place) into given
    from pg_catalog.jsonb_array_elements_text(stored -> 'v') with ordinality as v(value, place);
    select pg_catalog.jsonb_object_agg(s.key, pg_catalog.current_setting(s.key)) into before
    from pg_catalog.jsonb_each_text(settings) as s;
    perform pg_catalog.set_config(s.key, s.value, true) from pg_catalog.jsonb_each_text(settings) as s;
    execute {invocation}{given};
    perform pg_catalog.set_config(s.key, s.value, true) from pg_catalog.jsonb_each_text(before) as s;
    if failure is not null then
        raise exception 'a call of % failed at the Publisher (%) and does not fail here', {identity}, failure
            using errcode = failure;
    end if;
{path_stays}end
$msrepl$;
alter function {function}(text) owner to {owner};
revoke all on function {function}(text) from public;
grant execute on function {function}(text) to {agent};
comment on function {function}(text) is {comment};
