-- msrepl.ddl_guard: after DDL, or before DDL rewrites a table, replaces the sync procedures of an article that no
-- longer fits its table with ones that report this, and refuses DDL that removes row versions.
-- called by: event triggers of this database (ddl_guard_triggers.sql)
-- tables:    msrepl.sysarticles; catalogs
-- holes:     owner
--
-- The check costs nothing at run time: a stale article has other procedures. They are replaced in the transaction of
-- the DDL, and are rolled back with it. While its structure is empty, an article is being changed by our own code.
--
-- A rewrite may give rows other values under their present row versions (ALTER COLUMN … TYPE … USING, a volatile
-- default), so the article becomes stale even if its structure is unchanged. Each command that concerns a stale article
-- updates its row and so its xmin, by which code that has compared rows (twopc.sim.topology.regeneration) sees that
-- they may have changed since.
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
    -- the snapshot does not show articles published after it; the unique index does, by an error (40001)
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        begin
            -- with numbers that no article has: numbers from the sequence would be used up
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
    -- no article is left to guard, or the DDL is our own
    if (select bool_and(a.structure <> '') from msrepl.sysarticles as a) is not true
    then
        return;
    end if;
    -- a rewrite for neither a default nor a type leaves the values of rows unchanged
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
