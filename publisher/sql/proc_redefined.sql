-- msrepl.proc_redefined: adopts a user's new definition of a published routine.
-- called by: proc_ddl_guard
-- tables:    msrepl.sysprocarticles, msrepl.log_message; catalogs
-- holes:     owner, pinned
--
-- CREATE OR REPLACE keeps names, types and result, so what was generated from them still fits. The new text
-- becomes the body, the wrapper is put back in the routine's place, and the definition is posted for the
-- Subscribers. It runs with the rights of the caller, who must be an administrator.
create or replace function msrepl.proc_redefined(article integer) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
{pinned}
set check_function_bodies = off
as $msrepl$
declare
    known msrepl.sysprocarticles;
    routine pg_proc;
    defined text;
    head text;
    -- comments and strings
    texts constant text := E'--[^\\n]*|/\\*([^*]|\\*+[^*/])*\\*+/|[eE]''([^''\\\\]|\\\\.|'''')*''|''([^'']|'''')*''';
begin
    select a.* into strict known from msrepl.sysprocarticles as a where a.article_id = article;
    select p.* into strict routine from pg_proc as p where p.oid = known.objid;
    if routine.prokind = 'f' and routine.provolatile <> 'v' then
        raise exception 'published function %.% must be VOLATILE: its calls are marked in the log',
            known.schema, known.name
            using errcode = 'dependent_objects_still_exist', hint = 'Unpublish it first: twopc procedure unpublish.';
    end if;
    if routine.prolang in (select l.oid from pg_language as l where l.lanname in ('internal', 'c')) then
        raise exception 'published routine %.% cannot be one without a text (21004)', known.schema, known.name
            using errcode = 'dependent_objects_still_exist', hint = 'Unpublish it first: twopc procedure unpublish.';
    end if;
    defined := rtrim(pg_get_functiondef(routine.oid), E'\n');
    if known.wrapper_source is not null then
        if routine.prokind = 'p'
            and regexp_replace(routine.prosrc, texts, ' ', 'g') ~* E'(^|;|>>|\\m(begin|then|else|loop))\\s*(commit|rollback)\\M'
        then
            raise exception 'published routine %.% cannot end transactions: a call of it is one', known.schema, known.name
                using errcode = 'dependent_objects_still_exist',
                      hint = 'Unpublish it first (twopc procedure unpublish), and publish it as ''proc exec''.';
        end if;
        head := format('CREATE OR REPLACE %s %I.%I(',
                       case routine.prokind when 'p' then 'PROCEDURE' else 'FUNCTION' end, known.schema, known.name);
        if not starts_with(defined, head) then
            raise exception 'the definition of routine %.% cannot be read: %', known.schema, known.name, defined;
        end if;
        update msrepl.sysprocarticles as a set working = true where a.article_id = article;
        execute format('CREATE OR REPLACE %s %I.%I(',
                       case routine.prokind when 'p' then 'PROCEDURE' else 'FUNCTION' end,
                       'msrepl_body_' || article, known.name)
            || substr(defined, length(head) + 1);
        execute format('create or replace %s %I.%I(%s)%s language plpgsql%s as %L',
                       case routine.prokind when 'p' then 'procedure' else 'function' end, known.schema, known.name,
                       pg_get_function_arguments(routine.oid),
                       ' returns ' || pg_get_function_result(routine.oid),
                       case when routine.proisstrict then ' strict' else '' end, known.wrapper_source);
        perform msrepl.proc_fit_body(article);
    end if;
    update msrepl.sysprocarticles as a
    set (definition, arguments, working) = (defined, msrepl.proc_described(routine.oid), false)
    where a.article_id = article;
    if known.replicate_ddl then
        insert into msrepl.log_message (kind, body)
        values ('procedure', jsonb_build_object('article', article, 'definition', defined));
    end if;
end
$msrepl$;
alter function msrepl.proc_redefined(integer) owner to {owner};
revoke all on function msrepl.proc_redefined(integer) from public;
comment on function msrepl.proc_redefined(integer) is 'Takes over what a user has defined in the place of a published routine';
