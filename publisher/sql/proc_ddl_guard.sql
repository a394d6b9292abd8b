-- msrepl.proc_ddl_guard: refuses DDL that published routines do not allow, and propagates new definitions.
-- called by: event triggers of this database (proc_guard_triggers.sql)
-- tables:    msrepl.sysprocarticles, msrepl.log_message; catalogs
-- holes:     owner, pinned
--
-- Its owner is the administrator who installs it, because it redefines routines that belong to users. It
-- executes none of their code. While an article has `working` set, the DDL is our own.
--
-- The lock waits for callers of the routine: a call in the log ran the definition that precedes it there, and
-- fired the triggers that existed when it began. A caller whose snapshot is older than a new trigger reads the
-- previous row; the change is therefore posted as a message, and the log reader treats it as a writer that the
-- snapshot did not see.
create or replace function msrepl.proc_ddl_guard() returns event_trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
{pinned}
as $msrepl$
declare
    touched oid[] := array[]::oid[];
    rights boolean := false;
    tables boolean;
    lost text;
    article record;
begin
    if to_regclass('msrepl.sysprocarticles') is null then
        return;
    end if;
    -- the snapshot does not show routines published after it; the unique index does, by an error (40001)
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        begin
            insert into msrepl.sysprocarticles (article_id, objid, schema, name, kind, arguments, returns_set, type,
                                                xact_abort, commits, replicate_ddl, definition)
            select n, (4294967295 - n)::oid, '', '', 'p', '{{}}', false, 'proc exec', false, false, false, ''
            from msrepl.sysarticles_article_id_seq as s, generate_series(1, s.last_value) as n
            order by n
            on conflict (article_id) do nothing;
            raise exception 'undone';
        exception when raise_exception then null;
        end;
    end if;
    if not exists (select from msrepl.sysprocarticles)
        or exists (select from msrepl.sysprocarticles as a where a.working)
    then
        return;
    end if;
    if tg_event = 'sql_drop' then
        select format('%s cannot be dropped: it is published', d.object_identity) into lost
        from pg_event_trigger_dropped_objects() as d
        where d.classid = 'pg_proc'::regclass
          and (d.objid in (select a.objid from msrepl.sysprocarticles as a)
               or d.schema_name in (select 'msrepl_body_' || a.article_id from msrepl.sysprocarticles as a)
               -- object_identity is printed according to the session's settings, so names are compared
               or d.address_names[1] = 'msrepl_call' and d.address_names[2] ~ '^(run|args)_[0-9]+$')
        limit 1;
        tables := exists (
            select from pg_event_trigger_dropped_objects() as d
            where d.object_type in ('table', 'trigger', 'rule', 'table constraint') and not d.is_temporary);
    else
        select array_agg(d.objid) filter (where d.classid = 'pg_proc'::regclass),
               coalesce(bool_or(tg_tag in ('GRANT', 'REVOKE') and lower(d.object_type) in ('function', 'procedure', 'routine')), false),
               coalesce(bool_or(tg_tag in ('CREATE TABLE', 'ALTER TABLE', 'CREATE TRIGGER', 'CREATE RULE')), false),
               min(format('%s cannot be altered: it is part of a published routine', d.object_identity))
                   filter (where d.schema_name ~ '^msrepl_body_[0-9]+$'
                              or d.object_identity ~ E'^msrepl_call\\.(run|args)_[0-9]+\\(')
        into touched, rights, tables, lost
        from pg_event_trigger_ddl_commands() as d;
    end if;
    if lost is not null then
        raise exception '%', lost
            using errcode = 'dependent_objects_still_exist', hint = 'Unpublish it first: twopc procedure unpublish.';
    end if;
    for article in
        select a.*, n.nspname, p.proname, p.proowner, p.prosrc, p.prosqlbody, p.prosecdef, p.proconfig, p.provolatile, l.lanname
        from msrepl.sysprocarticles as a
        join pg_proc as p on p.oid = a.objid
        join pg_namespace as n on n.oid = p.pronamespace
        join pg_language as l on l.oid = p.prolang
        where a.objid = any (touched) or tg_tag = 'ALTER SCHEMA' and n.nspname <> a.schema
    loop
        if (article.nspname, article.proname) is distinct from (article.schema, article.name) then
            raise exception 'routine %.% cannot be renamed or moved: it is published', article.schema, article.name
                using errcode = 'dependent_objects_still_exist',
                      hint = 'Unpublish it first: twopc procedure unpublish.';
        end if;
        perform pg_advisory_xact_lock(1836282470, article.article_id);
        if article.wrapper_source is null
            or article.lanname <> 'plpgsql' or article.prosrc is distinct from article.wrapper_source
        then
            perform msrepl.proc_redefined(article.article_id);
        elsif article.prosecdef or article.proconfig is not null or article.provolatile <> 'v' then
            raise exception 'properties of published routine %.% cannot be altered', article.schema, article.name
                using errcode = 'dependent_objects_still_exist',
                      hint = 'Say them with its text in CREATE OR REPLACE, or unpublish it first.';
        else
            perform msrepl.proc_fit_body(article.article_id);
        end if;
    end loop;
    if rights then
        perform msrepl.proc_fit_body(a.article_id)
        from msrepl.sysprocarticles as a where a.wrapper_source is not null;
    end if;
    if tables then
        for article in
            select a.article_id, msrepl.proc_obstacle(a.writes) as obstacle
            from msrepl.sysprocarticles as a
            where a.obstacle is distinct from msrepl.proc_obstacle(a.writes)
        loop
            perform pg_advisory_xact_lock(1836282470, article.article_id);
            update msrepl.sysprocarticles as a set obstacle = article.obstacle where a.article_id = article.article_id;
            insert into msrepl.log_message (kind, body)
            values ('procedure', jsonb_build_object('article', article.article_id));
        end loop;
    end if;
end
$msrepl$;
alter function msrepl.proc_ddl_guard() owner to {owner};
revoke all on function msrepl.proc_ddl_guard() from public;
comment on function msrepl.proc_ddl_guard() is 'Keeps published routines what they are, and carries new definitions on';
