-- msrepl.ddl_guard: after DDL, or before DDL rewrites a table, replaces the trigger functions of a table that
-- they no longer fit with ones that report this, and refuses DDL that would let changes pass unseen.
-- called by: event triggers of this database (ddl_guard_triggers.sql)
-- tables:    msrepl.msreplication_objects; catalogs
-- holes:     owner
--
-- The check costs nothing at run time: stale triggers have other functions. These are replaced in the transaction of
-- the DDL, and are rolled back with it. While its structure is empty, an article is being changed by our own code. A
-- rewrite may give rows other values under their present row versions: see publisher/sql/ddl_guard_function.sql.
create or replace function msrepl.ddl_guard() returns event_trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    touched oid[];
    missing text;
    article record;
begin
    if to_regclass('msrepl.msreplication_objects') is null then
        return;
    end if;
    -- the snapshot does not show tables subscribed after it; the unique index does, by an error (40001)
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        begin
            insert into msrepl.msreplication_objects (objid, dest_schema, article, created_table, added_version, sync_calls)
            select t, '', t, false, false, '{{}}'
            from unnest(coalesce(msrepl.touched_tables(tg_event), array(select c.oid from pg_class as c where c.relkind in ('r', 'p')))) as t
            order by t
            on conflict do nothing;
            raise exception 'undone';
        exception when raise_exception then null;
        end;
    end if;
    -- no table is left to guard, or the DDL is our own
    if (select bool_and(o.structure <> '') from msrepl.msreplication_objects as o) is not true
    then
        return;
    end if;
    -- a rewrite for neither a default nor a type leaves the values of rows unchanged
    if tg_event = 'table_rewrite' and pg_event_trigger_table_rewrite_reason() & 6 = 0 then
        return;
    end if;
    -- changes of another table that has taken its name would not be sent
    select o.dest_schema, o.article into article
    from msrepl.msreplication_objects as o
    join pg_namespace as n on n.nspname = o.dest_schema
    join pg_class as c on c.relnamespace = n.oid and c.relname = o.article and c.relkind in ('r', 'p', 'f')
    where c.oid <> o.objid
    limit 1;
    if found then
        raise exception 'no other table may have the name of subscribed table %.%', article.dest_schema, article.article
            using errcode = 'dependent_objects_still_exist',
                  hint = 'A table that was renamed goes by its new name after: twopc regenerate. Otherwise unsubscribe first (twopc unsubscribe).';
    end if;
    touched := msrepl.touched_tables(tg_event);
    for article in
        select o.objid, o.dest_schema, o.article, o.fingerprints,
               c.oid is null as dropped,
               tg_event = 'table_rewrite'
                   or msrepl.table_structure(o.objid) is distinct from o.structure as altered
        from msrepl.msreplication_objects as o
        left join pg_class as c on c.oid = o.objid
        where touched is null or o.objid = any (touched)
    loop
        if not article.dropped and not exists (
            select from pg_attribute as a
            where a.attrelid = article.objid and a.attname = 'msrepl_tran_version' and not a.attisdropped
              and a.attnotnull and a.atttypid = 'uuid'::regtype
        ) then
            raise exception 'column msrepl_tran_version of subscribed table %.% cannot be changed or dropped (21080)',
                article.dest_schema, article.article
                using errcode = 'dependent_objects_still_exist', hint = 'Unsubscribe first: twopc unsubscribe.';
        end if;
        -- a partition may be dropped together with its triggers
        missing := msrepl.missing_fingerprint(article.objid, article.fingerprints);
        if not article.dropped and missing is not null then
            raise exception '% cannot be altered, disabled or dropped: changes of subscribed table %.% would pass unseen',
                missing, article.dest_schema, article.article
                using errcode = 'dependent_objects_still_exist',
                      hint = 'Unsubscribe first (twopc unsubscribe); or SET session_replication_role = replica for changes that are not for replication.';
        end if;
        if exists (select from pg_inherits as i where i.inhrelid = article.objid) then
            raise exception 'subscribed table %.% cannot have a parent: changes made through it would pass unseen',
                article.dest_schema, article.article
                using errcode = 'dependent_objects_still_exist', hint = 'Unsubscribe first: twopc unsubscribe.';
        end if;
        continue when not article.altered;
        perform msrepl.close_partition(p.relid, article.dest_schema, article.article)
        from pg_partition_tree(article.objid) as p
        where p.level > 0 and not exists (
            select from pg_trigger as t
            join pg_proc as f on f.oid = t.tgfoid and f.pronamespace = 'msrepl'::regnamespace
            where t.tgrelid = p.relid and t.tgparentid = 0);
        perform msrepl.make_stale(
            article.objid, case when article.dropped then 'the table was dropped' else 'the table was altered' end);
    end loop;
end
$msrepl$;
alter function msrepl.ddl_guard() owner to {owner};
revoke all on function msrepl.ddl_guard() from public;
comment on function msrepl.ddl_guard() is 'Replaces trigger functions that no longer fit their table by ones that say so';
