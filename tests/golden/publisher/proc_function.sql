-- msrepl_body_<n>: the schema that holds a published routine's body, and nothing else.
-- called by: twopc.publisher.proc_execution
-- tables:    none
-- holes:     name
--
-- The body keeps its name, since its text may qualify arguments with it: name.argument.
create schema "msrepl_body_7";
grant usage on schema "msrepl_body_7" to public;

CREATE OR REPLACE FUNCTION "msrepl_body_7"."give_raise"(pct integer) ...;

-- msrepl_call.args_<n>: the call of a published routine as it is stored, independent of the caller's settings.
-- called by: msrepl_call.run_<n>
-- tables:    none
-- holes:     name, parameters, types, values, signature
--
-- Values are written by the output functions of their types, which a cast to text may not use.
create or replace function msrepl_call."args_7"(jsonb, integer) returns text
language sql stable
set search_path = pg_catalog, pg_temp
set datestyle = 'ISO, MDY'
set intervalstyle = 'postgres'
set timezone = 'UTC'
set extra_float_digits = 1
set bytea_output = 'hex'
set lc_monetary = 'C'
set xmloption = 'content'
as $msrepl$
    select jsonb_build_object('v', jsonb_build_array(case when num_nulls($2) = 0 then concat($2) end), 's', $1)::text
$msrepl$;
revoke all on function msrepl_call."args_7"(jsonb, integer) from public;
grant execute on function msrepl_call."args_7"(jsonb, integer) to public;
comment on function msrepl_call."args_7"(jsonb, integer) is 'The call of a published routine as it is stored';

-- msrepl_call.run_<n>: runs a published routine's body between the two call markers.
-- called by: the wrapper in the routine's place
-- tables:    none
-- holes:     kind, name, parameters, returns, article, arguments, variables, body, answer
--
-- The setting makes the call one statement: a COMMIT in the body is refused. msrepl.in_call names the
-- article of the running call, so that nested calls are recognised; an error restores it.
create or replace function msrepl_call."run_7"(p1 integer, out p2 integer, out p3 text) returns setof record
language plpgsql
set msrepl.one_statement = on
as $msrepl$
declare
    opened bigint;
    closed text;
    failure text;
    nested constant text := nullif(pg_catalog.current_setting('msrepl.in_call', true), '');
begin
    closed := pg_catalog.set_config('msrepl.in_call', 7::text, true);
    opened := msrepl_call.open_bracket(7, msrepl_call.args_7(msrepl_call.settings(), p1));
    return query select * from "msrepl_body_7"."give_raise"(p1);
    closed := pg_catalog.set_config('msrepl.in_call', coalesce(nested, ''), true);
    if opened is not null then
        closed := msrepl_call.close_bracket(7, opened, failure);
    end if;
end
$msrepl$;

-- The wrapper in the place of a published routine, under its name: calls the runner.
-- called by: callers of the routine
-- tables:    none
-- holes:     kind, name, parameters, returns, attributes, call
create or replace function "public"."give_raise"(pct integer) returns TABLE(id integer, opened text)
language plpgsql strict
as $msrepl$
begin
    return query select * from msrepl_call.run_7($1);
end
$msrepl$;

drop routine if exists msrepl_call.args_7;

drop routine if exists msrepl_call.run_7;

drop schema if exists msrepl_body_7 cascade;
