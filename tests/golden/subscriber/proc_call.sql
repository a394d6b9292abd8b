-- msrepl.apply_<article>_call: makes one call of a routine, as it is stored.
-- called by: the distribution agent
-- tables:    those that the routine uses
-- holes:     function, invocation, given, identity, runs_as, path_stays, owner, agent, comment
--
-- The caller's settings apply to the call alone: other commands of the same commit must not see them. The
-- rights are those of the role of calls. No search_path is set: the caller's applies.
create or replace function "msrepl"."apply_7_call"(command text) returns void
language plpgsql security definer
as $msrepl$
declare
    path constant text := pg_catalog.current_setting('search_path');
    stored pg_catalog.jsonb := command::pg_catalog.jsonb;
    failure pg_catalog.text := stored ->> 'f';
    settings pg_catalog.jsonb := coalesce(stored -> 's', '{}');
    types pg_catalog.jsonb := stored -> 't';
    given pg_catalog.text[];
    before pg_catalog.jsonb;
begin
-- fragment: raises an error if a function that runs code of a table's owner does not run as its own owner.
-- called by: rendered at the beginning of functions of a table's role
-- tables:    none
-- holes:     role_text
--
-- That code also runs as the function's owner, and can remove SECURITY DEFINER or search_path from the function.
    if current_user operator(pg_catalog.<>) 'calls' then
        raise exception 'this function must run as its owner %, and runs as %', 'calls', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
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
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered at the end of the functions that agents call for a table
-- tables:    none
-- holes:     none
--
-- A SET clause would cost a tenth of a call, and would not help: SET outlasts it.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) path then
        raise exception 'an expression, a trigger or a procedure of a table has set search_path'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
end
$msrepl$;
alter function "msrepl"."apply_7_call"(text) owner to "calls";
revoke all on function "msrepl"."apply_7_call"(text) from public;
grant execute on function "msrepl"."apply_7_call"(text) to "msrepl_agent";
comment on function "msrepl"."apply_7_call"(text) is 'One call of public.give_raise(numeric)';

-- msrepl.apply_<article>_call: makes one call of a routine, as it is stored.
-- called by: the distribution agent
-- tables:    those that the routine uses
-- holes:     function, invocation, given, identity, runs_as, path_stays, owner, agent, comment
--
-- The caller's settings apply to the call alone: other commands of the same commit must not see them. The
-- rights are those of the role of calls. No search_path is set: the caller's applies.
create or replace function "msrepl"."apply_8_call"(command text) returns void
language plpgsql security definer
as $msrepl$
declare
    path constant text := pg_catalog.current_setting('search_path');
    stored pg_catalog.jsonb := command::pg_catalog.jsonb;
    failure pg_catalog.text := stored ->> 'f';
    settings pg_catalog.jsonb := coalesce(stored -> 's', '{}');
    types pg_catalog.jsonb := stored -> 't';
    given pg_catalog.text[];
    before pg_catalog.jsonb;
begin
-- fragment: raises an error if a function that runs code of a table's owner does not run as its own owner.
-- called by: rendered at the beginning of functions of a table's role
-- tables:    none
-- holes:     role_text
--
-- That code also runs as the function's owner, and can remove SECURITY DEFINER or search_path from the function.
    if current_user operator(pg_catalog.<>) 'calls' then
        raise exception 'this function must run as its owner %, and runs as %', 'calls', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
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
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered at the end of the functions that agents call for a table
-- tables:    none
-- holes:     none
--
-- A SET clause would cost a tenth of a call, and would not help: SET outlasts it.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) path then
        raise exception 'an expression, a trigger or a procedure of a table has set search_path'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
end
$msrepl$;
alter function "msrepl"."apply_8_call"(text) owner to "calls";
revoke all on function "msrepl"."apply_8_call"(text) from public;
grant execute on function "msrepl"."apply_8_call"(text) to "msrepl_agent";
comment on function "msrepl"."apply_8_call"(text) is 'One call of "odd schema"."50% ""off"""(anyelement, character[], text[])';
