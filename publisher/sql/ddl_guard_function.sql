-- msrepl.ddl_guard: after DDL, replaces the sync procedures of an article that no longer fits its table by
-- ones that say so.
-- called by: event triggers of this database (ddl_guard_triggers.sql)
-- tables:    msrepl.sysarticles
-- holes:     owner
--
-- The check costs nothing at run time: a stale article simply has other procedures.
create or replace function msrepl.ddl_guard() returns event_trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    article record;
    routine record;
begin
    for article in
        select a.article_id, a.source_schema, a.source_object, a.procedures, c.oid is null as dropped
        from msrepl.sysarticles a
        left join pg_class c on c.oid = a.objid
        where a.stale is null and msrepl.table_structure(a.objid) is distinct from a.structure
    loop
        update msrepl.sysarticles a
        set stale = case when article.dropped then 'the table was dropped' else 'the table was altered' end
        where a.article_id = article.article_id;
        for routine in
            select p.proname, pg_get_function_arguments(p.oid) as arguments
            from pg_proc p
            where p.oid = any (article.procedures)
        loop
            execute format(
                'create or replace procedure msrepl.%I(%s) language plpgsql security definer '
                'set search_path = pg_catalog, pg_temp as %L',
                routine.proname, routine.arguments,
                format('begin perform msrepl.raise_stale(%L, %L, ''Publisher''); end',
                       article.source_schema, article.source_object));
        end loop;
    end loop;
end
$msrepl$;
alter function msrepl.ddl_guard() owner to {owner};
revoke all on function msrepl.ddl_guard() from public;
comment on function msrepl.ddl_guard() is 'Replaces procedures that no longer fit their table by ones that say so';
