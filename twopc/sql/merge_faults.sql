-- msrepl.merge_faults: changes of merged tables with which sessions cannot continue, and the remedy for each.
-- called by: msrepl.merge_hello; twopc.drivers.merge.checks
-- tables:    msrepl.sysmergearticles, msrepl.sysmergesubscriptions, msrepl.msmerge_identity_range, catalogs
-- holes:     owner
--
-- With them, changes would go unrecorded, agents would violate foreign keys, or rows would not fit. Types are compared
-- with those from which the article's row type was made. Which tracking triggers a table has depends on the article's
-- options; those of keys are enabled ALWAYS, unless checked_keys is NULL.
create or replace function msrepl.merge_faults() returns table (artid uuid, name text, what text, remedy text)
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    with tracked as (
        select a.*, replace(a.artid::text, '-', '') as hex, c.relrowsecurity, c.relpersistence, n.nspname, c.relname,
               format('%I.%I', n.nspname, c.relname) as here,
               case when (select s.subscriber_type from msrepl.sysmergesubscriptions as s where s.is_self) = 2
                   then a.upload_options else 'normal' end as upload,
               to_regprocedure(format('msrepl.msmerge_guard_%s()', replace(a.artid::text, '-', ''))) is not null as is_guarded
        from msrepl.sysmergearticles as a
        left join pg_class as c on c.oid = a.objid
        left join pg_namespace as n on n.oid = c.relnamespace
    )
    select t.artid, case t.source_schema when 'public' then '' else t.source_schema || '.' end || t.source_object, f.what, f.remedy
    from tracked as t
    cross join lateral (
        select 1, 'was dropped', 'unsubscribe every Subscriber, unpublish the table, and publish it again'
        where t.relname is null
        union all
        select 2, format('was moved to schema %I', t.nspname), format('alter table %s set schema %I', t.here, t.source_schema)
        where t.nspname <> t.source_schema
        union all
        select 2, format('was renamed to %I', t.relname), format('alter table %s rename to %I', t.here, t.source_object)
        where t.relname <> t.source_object
        union all
        select 2, format('has become a part of %s', i.inhparent::regclass),
               case when p.relkind = 'p' then format('alter table %s detach partition %s', i.inhparent::regclass, t.here)
                    else format('alter table %s no inherit %s', t.here, i.inhparent::regclass) end
        from pg_inherits as i join pg_class as p on p.oid = i.inhparent where i.inhrelid = t.objid
        union all
        select 2, format('has a child %s, whose rows are not merged', i.inhrelid::regclass),
               format('alter table %s no inherit %s', i.inhrelid::regclass, t.here)
        from pg_inherits as i where i.inhparent = t.objid
        union all
        select 2, 'has row security, which hides rows from sessions', format('alter table %s disable row level security', t.here)
        where t.relrowsecurity
        union all
        select 2, 'is unlogged: a crash would empty it', format('alter table %s set logged', t.here)
        where t.relpersistence <> 'p'
        union all
        select 2, format('computes its column %I, which takes no values any more', b.attname),
               format('alter table %s alter column %I drop expression; or unsubscribe every Subscriber, unpublish the table, and publish it again',
                      t.here, b.attname)
        from pg_attribute as b
        where b.attrelid = t.objid and b.attname = any (t.columns) and not b.attisdropped and b.attgenerated <> ''
        union all
        select 2, format('has no unique key of its column %I alone', b.attname), format('alter table %s add unique (%I)', t.here, b.attname)
        from pg_attribute as b
        where b.attrelid = t.objid and b.attname = t.rowguid and not b.attisdropped and not exists (
            select from pg_index as i
            where i.indrelid = t.objid and i.indisunique and i.indisvalid and i.indpred is null and i.indnkeyatts = 1
                and i.indkey[0] = b.attnum)
        union all
        select 2, format('has lost its column %I', w.name),
               'rename it back; if it was dropped, unsubscribe every Subscriber, unpublish the table, and publish it again'
        from unnest(t.columns || t.rowguid) as w(name)
        where t.relname is not null and not exists (
            select from pg_attribute as b where b.attrelid = t.objid and b.attname = w.name and not b.attisdropped)
        union all
        select 2, format('has another type in column %I: %s', w.name, format_type(b.atttypid, b.atttypmod)),
               format('alter table %s alter column %I type %s; or unsubscribe every Subscriber, unpublish the table, and publish it again',
                      t.here, w.name, format_type(r.atttypid, r.atttypmod))
        from unnest(t.columns, t.column_numbers) as w(name, number)
        join pg_attribute as b on b.attrelid = t.objid and b.attname = w.name and not b.attisdropped
        join pg_type as y on y.typnamespace = 'msrepl'::regnamespace and y.typname = 'msmerge_row_' || t.hex
        join pg_attribute as r on r.attrelid = y.typrelid and r.attname = 'n' || w.number
        where b.atttypid <> r.atttypid
        union all
        select 2, format('has another type in column %I: %s', t.rowguid, format_type(b.atttypid, b.atttypmod)),
               'rename the column that had this name back'
        from pg_attribute as b
        where b.attrelid = t.objid and b.attname = t.rowguid and not b.attisdropped and b.atttypid <> 'uuid'::regtype
        union all
        select 3, format('%s: trigger %I is %s', w.missed, 'msmerge_' || w.kind || '_' || t.hex,
                         case when g.oid is null then 'missing' else 'not enabled ALWAYS' end),
               case when g.oid is null then 'unsubscribe every Subscriber, unpublish the table, and publish it again'
                    else 'twopc merge regenerate, then validate every Subscriber, since changes may have been missed' end
        from (values ('ins', 'misses inserts', t.upload = 'normal'), ('upd', 'misses updates', t.upload = 'normal'),
                     ('del', 'misses deletions', t.upload = 'normal' and t.delete_tracking),
                     ('ref', 'takes changes that are refused', t.upload = 'refused'),
                     ('guard_ins', 'takes inserts outside the partition', t.is_guarded),
                     ('guard_upd', 'takes updates that leave the partition', t.is_guarded),
                     ('idn', 'gives no identity values', t.identity_column is not null and t.created_table),
                     ('idc', 'takes inserts with identity values of other nodes', t.identity_column is not null),
                     ('idu', 'takes updates to identity values of other nodes', t.identity_column is not null),
                     ('guid', 'takes updates of the column by which rows are known', true)) as w(kind, missed, is_due)
        left join pg_trigger as g on g.tgrelid = t.objid and g.tgname = 'msmerge_' || w.kind || '_' || t.hex
        where w.is_due and t.relname is not null and g.tgenabled is distinct from 'A'
        union all
        select 2, format('has lost the sequence of its column %I', t.identity_column),
               'unsubscribe every Subscriber, unpublish the table, give the column a sequence, and publish the table again'
        where t.identity_column is not null and not exists (select from pg_sequence as q where q.seqrelid = t.identity_sequence)
        union all
        select 2, format('has sequence %s, which counts otherwise than when it was published', q.seqrelid::regclass),
               format('alter sequence %s increment %s no cycle', q.seqrelid::regclass, t.identity_step)
        from pg_sequence as q
        where q.seqrelid = t.identity_sequence and not t.created_table and (q.seqincrement <> t.identity_step or q.seqcycle)
        union all
        select 2, format('has sequence %s at %s, and values to %s were allotted', q.seqrelid::regclass, d.last, r.last),
               format('select setval(%L, %s)', q.seqrelid::regclass, r.last)
        from pg_sequence as q
        cross join lateral (select coalesce(pg_sequence_last_value(q.seqrelid), q.seqstart - q.seqincrement) as last) as d
        cross join lateral (
            select max(r.range_end) as last from msrepl.msmerge_identity_range as r
            where r.artid = t.artid and r.place_end is null) as r
        where q.seqrelid = t.identity_sequence and not t.created_table and d.last < r.last
        union all
        select case when w.acts then 2 else 3 end,
               format('has key %I%s, which %s', k.conname, ' of ' || nullif(k.conrelid, t.objid)::regclass, case
                   when w.acts then 'changes rows by itself'
                   else 'is not checked for agents: a trigger of it is not enabled ALWAYS' end),
               case when w.acts then format('alter table %s drop constraint %I; add the key again with NO ACTION or RESTRICT; '
                   'twopc merge regenerate', k.conrelid::regclass, k.conname) else 'twopc merge regenerate' end
        from pg_trigger as g join pg_constraint as k on k.oid = g.tgconstraint and k.contype in ('f', 'p', 'u', 'x')
        cross join lateral (select k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd') as acts) as w
        where g.tgrelid = t.objid and g.tgisinternal and (w.acts or g.tgenabled <> 'A' and t.checked_keys is not null)
        group by k.conname, k.conrelid, w.acts
        union all
        select 2, format('has no validated foreign key to %s any more, by which its partitions are worked out', (
                   select a.source_object from msrepl.sysmergearticles as a where a.artid = j.join_articleid)),
               'unsubscribe every Subscriber, unpublish the table, and publish it again'
        from msrepl.sysmergesubsetfilters as j
        where j.artid = t.artid and j.join_unique_key and not exists (
            select from pg_constraint as k join msrepl.sysmergearticles as a on a.objid = k.confrelid
            where k.conrelid = t.objid and k.contype = 'f' and k.convalidated and a.artid = j.join_articleid)
        union all
        select 3, format('takes TRUNCATE: trigger %I is disabled', g.tgname), 'twopc merge regenerate'
        from pg_trigger as g
        where g.tgrelid = t.objid and g.tgfoid = 'msrepl.refuse_truncate()'::regprocedure and g.tgenabled = 'D'
    ) as f(weight, what, remedy)
    order by f.weight, t.nickname, f.what
$msrepl$;
alter function msrepl.merge_faults() owner to {owner};
revoke all on function msrepl.merge_faults() from public;
comment on function msrepl.merge_faults() is 'What has become of merged tables that sessions cannot go on with';
