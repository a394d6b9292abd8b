-- msrepl.ddl_guard: after DDL, or before it rewrites a table, replaces the sync procedures of an article that no
-- longer fits its table by ones that say so, and refuses DDL that takes row versions away.
-- called by: event triggers of this database (ddl_guard_triggers.sql)
-- tables:    msrepl.sysarticles; catalogs
-- holes:     owner
--
-- The check costs nothing at run time: a stale article simply has other procedures, in the transaction of
-- the DDL itself, so they come and go with it. An article without a structure is being worked on.
--
-- A rewrite may give rows other values under the versions that they have (ALTER COLUMN … TYPE … USING, a volatile
-- default): the article is stale even if its structure is what it was. Each command that touches a stale article
-- leaves another xmin: whoever has compared rows (twopc.sim.topology.regeneration) sees that they may have changed since.
create or replace function msrepl.ddl_guard() returns event_trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    touched oid[];
    missing text;
    article record;
    routine record;
begin
    if to_regclass('msrepl.sysarticles') is null then
        return;
    end if;
    -- a snapshot does not show what was published since; the index does, by a failure (40001)
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        begin
            -- under a number of no article: those of the sequence would be gone
            insert into msrepl.sysarticles (article_id, objid, source_schema, source_object, added_version, propagation, structure)
            overriding system value
            select (t::int8 - 2147483648)::int4, t, '', t, false, '{{}}', ''
            from unnest(coalesce(msrepl.touched_tables(tg_event), array(select c.oid from pg_class as c where c.relkind in ('r', 'p')))) as t
            order by t
            on conflict (objid) do nothing;
            raise exception 'undone';
        exception when raise_exception then null;
        end;
    end if;
    -- nothing is left to guard, or the DDL is our own
    if (select bool_and(a.structure <> '') from msrepl.sysarticles as a) is not true
    then
        return;
    end if;
    -- neither a default nor a type: rows stay as they are
    if tg_event = 'table_rewrite' and pg_event_trigger_table_rewrite_reason() & 6 = 0 then
        return;
    end if;
    touched := msrepl.touched_tables(tg_event);
    for article in
        select a.article_id, a.objid, a.source_schema, a.source_object, a.procedures, a.fingerprints, a.stale,
               c.oid is null as dropped,
               tg_event = 'table_rewrite'
                   or msrepl.table_structure(a.objid) is distinct from a.structure as altered
        from msrepl.sysarticles a
        left join pg_class c on c.oid = a.objid
        where touched is null or a.objid = any (touched)
    loop
        if not article.dropped and not exists (
            select from pg_attribute a
            where a.attrelid = article.objid and a.attname = 'msrepl_tran_version' and not a.attisdropped
              and a.attnotnull and a.atttypid = 'uuid'::regtype
        ) then
            raise exception 'column msrepl_tran_version of published table %.% cannot be changed or dropped (21080)',
                article.source_schema, article.source_object
                using errcode = 'dependent_objects_still_exist', hint = 'Unpublish the table first: twopc unpublish.';
        end if;
        missing := msrepl.missing_fingerprint(article.objid, article.fingerprints);
        if not article.dropped and missing is not null then
            raise exception '% cannot be altered, disabled or dropped: published table %.% needs it as it is',
                missing, article.source_schema, article.source_object
                using errcode = 'dependent_objects_still_exist', hint = 'Unpublish the table first: twopc unpublish.';
        end if;
        continue when not article.altered;
        update msrepl.sysarticles a
        set stale = coalesce(
            a.stale, case when article.dropped then 'the table was dropped' else 'the table was altered' end)
        where a.article_id = article.article_id;
        continue when article.stale is not null;
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
