-- msrepl.apply_<article>_call: one call of a routine, as it is stored, made here.
-- called by: the distribution agent
-- tables:    those that the routine touches
-- holes:     function, invocation, given, identity, owner, agent, comment
--
-- The caller's settings hold for the call alone: other commands of the same commit must not see them. The
-- rights are the agent's. No search_path is set: the caller's is.
create or replace function "msrepl"."apply_7_call"(command text) returns void
language plpgsql
as $msrepl$
declare
    stored pg_catalog.jsonb := command::pg_catalog.jsonb;
    failure pg_catalog.text := stored ->> 'f';
    settings pg_catalog.jsonb := coalesce(stored -> 's', '{}');
    types pg_catalog.jsonb := stored -> 't';
    given pg_catalog.text[];
    before pg_catalog.jsonb;
begin
    select pg_catalog.array_agg(v.value order by v.place) into given
    from pg_catalog.jsonb_array_elements_text(stored -> 'v') with ordinality as v(value, place);
    select pg_catalog.jsonb_object_agg(s.key, pg_catalog.current_setting(s.key)) into before
    from pg_catalog.jsonb_each_text(settings) as s;
    perform pg_catalog.set_config(s.key, s.value, true) from pg_catalog.jsonb_each_text(settings) as s;
    execute 'call "public"."give_raise"($1::numeric, NULL)' using given[1];
    perform pg_catalog.set_config(s.key, s.value, true) from pg_catalog.jsonb_each_text(before) as s;
    if failure is not null then
        raise exception 'a call of % failed at the Publisher (%) and does not fail here', 'public.give_raise(numeric)', failure
            using errcode = failure;
    end if;
end
$msrepl$;
alter function "msrepl"."apply_7_call"(text) owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."apply_7_call"(text) from public;
grant execute on function "msrepl"."apply_7_call"(text) to "msrepl_agent";
comment on function "msrepl"."apply_7_call"(text) is 'One call of public.give_raise(numeric)';

-- msrepl.apply_<article>_call: one call of a routine, as it is stored, made here.
-- called by: the distribution agent
-- tables:    those that the routine touches
-- holes:     function, invocation, given, identity, owner, agent, comment
--
-- The caller's settings hold for the call alone: other commands of the same commit must not see them. The
-- rights are the agent's. No search_path is set: the caller's is.
create or replace function "msrepl"."apply_8_call"(command text) returns void
language plpgsql
as $msrepl$
declare
    stored pg_catalog.jsonb := command::pg_catalog.jsonb;
    failure pg_catalog.text := stored ->> 'f';
    settings pg_catalog.jsonb := coalesce(stored -> 's', '{}');
    types pg_catalog.jsonb := stored -> 't';
    given pg_catalog.text[];
    before pg_catalog.jsonb;
begin
    select pg_catalog.array_agg(v.value order by v.place) into given
    from pg_catalog.jsonb_array_elements_text(stored -> 'v') with ordinality as v(value, place);
    select pg_catalog.jsonb_object_agg(s.key, pg_catalog.current_setting(s.key)) into before
    from pg_catalog.jsonb_each_text(settings) as s;
    perform pg_catalog.set_config(s.key, s.value, true) from pg_catalog.jsonb_each_text(settings) as s;
    execute pg_catalog.format('select from "odd schema"."50%% ""off"""($1::%s, $2::bpchar[], variadic $3::text[])', types ->> 0) using given[1], given[2], given[3];
    perform pg_catalog.set_config(s.key, s.value, true) from pg_catalog.jsonb_each_text(before) as s;
    if failure is not null then
        raise exception 'a call of % failed at the Publisher (%) and does not fail here', '"odd schema"."50% ""off"""(anyelement, character[], text[])', failure
            using errcode = failure;
    end if;
end
$msrepl$;
alter function "msrepl"."apply_8_call"(text) owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."apply_8_call"(text) from public;
grant execute on function "msrepl"."apply_8_call"(text) to "msrepl_agent";
comment on function "msrepl"."apply_8_call"(text) is 'One call of "odd schema"."50% ""off"""(anyelement, character[], text[])';
