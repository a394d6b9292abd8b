-- msrepl.define_routine: gives a routine of the subscription the definition that it has at the Publisher.
-- called by: twopc.subscriber.proc_execution, msrepl.apply_<article>_definition
-- tables:    msrepl.msreplication_proc_articles
-- holes:     owner
--
-- A definition of anything else is refused. The routine runs with its caller's rights here, usually an
-- agent's, because the owner has none on tables. Names in its body are looked up when it is called, so a
-- missing table matters only then.
create or replace function msrepl.define_routine(article integer, definition text) returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
set check_function_bodies = off
as $msrepl$
declare
    known msrepl.msreplication_proc_articles;
    word text;
    others text[];
begin
    select * into strict known from msrepl.msreplication_proc_articles p where p.article_id = $1;
    word := case known.kind when 'p' then 'procedure' else 'function' end;
    if not starts_with(definition, format('CREATE OR REPLACE %s %I.%I(', upper(word), known.dest_schema, known.name)) then
        raise exception 'what came as a definition of % defines something else: %', known.identity,
            left(definition, 100)
            using errcode = 'invalid_object_definition';
    end if;
    others := array(
        select r.oid::regprocedure::text from pg_proc r join pg_namespace n on n.oid = r.pronamespace
        where (n.nspname, r.proname) = (known.dest_schema, known.name));
    begin
        execute definition;
    exception
        when invalid_function_definition then
            -- the type of its result has changed
            execute format('drop %s %s', word, known.identity);
            execute definition;
    end;
    if to_regprocedure(known.identity) is null or exists (
        select from pg_proc r join pg_namespace n on n.oid = r.pronamespace
        where (n.nspname, r.proname) = (known.dest_schema, known.name)
          and r.oid <> to_regprocedure(known.identity) and r.oid::regprocedure::text <> all (others)
    ) then
        raise exception 'what came as a definition of % defines another routine of that name', known.identity
            using errcode = 'invalid_object_definition';
    end if;
    execute format('alter %s %s security invoker', word, known.identity);
    if known.takes_calls and known.before is null then
        execute format('revoke all on %s %s from public', word, known.identity);
    end if;
    execute format('grant execute on %s %s to %I', word, known.identity, known.agent);
    update msrepl.msreplication_proc_articles p
    set digest = (select md5(r.prosrc) from pg_proc r where r.oid = known.identity::regprocedure)
    where p.article_id = $1;
end
$msrepl$;
alter function msrepl.define_routine(integer, text) owner to {owner};
revoke all on function msrepl.define_routine(integer, text) from public;
comment on function msrepl.define_routine(integer, text) is 'Gives a routine of the subscription the definition that it has at the Publisher';
