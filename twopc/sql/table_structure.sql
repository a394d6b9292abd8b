-- msrepl.table_structure: a digest of what the procedures and triggers of a table were generated from.
-- called by: publish/subscribe, and the event triggers that find stale objects (ddl_guard)
-- tables:    catalogs
-- holes:     owner, pinned
--
-- It includes names as they are in generated text: a rename makes that text stale. What our own code changes
-- is left out: our triggers, and whether keys are deferrable. NULL for a table that no longer exists. The
-- guard runs in sessions of any role, so constants and names are printed in the same way in all of them.
create or replace function msrepl.table_structure(relid oid) returns text
language sql stable
set search_path = pg_catalog, pg_temp
{pinned}
as $msrepl$
    select md5(string_agg(part, ' ' order by part))
    from (
        select format('table %I.%I %s %s', n.nspname, c.relname, c.relrowsecurity, c.relpersistence)
        from pg_class c
        join pg_namespace n on n.oid = c.relnamespace
        where c.oid = $1
      union all
        select format('column %s %I %s %s %s %s', a.attnum, a.attname, format_type(a.atttypid, a.atttypmod),
                      a.attnotnull, a.attidentity, a.attgenerated)
        from pg_attribute a
        where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped
      union all
        select format('default %s %s', d.adnum, pg_get_expr(d.adbin, d.adrelid))
        from pg_attrdef d
        where d.adrelid = $1
      union all
        select format('identity %s %s', d.refobjsubid, d.objid::regclass)
        from pg_depend d
        where d.refclassid = 'pg_class'::regclass and d.refobjid = $1 and d.classid = 'pg_class'::regclass
          and d.deptype = 'i' and d.refobjsubid > 0
      union all
        select format('trigger %I %s %s %s', t.tgname, t.tgtype, t.tgenabled, nullif(t.tgrelid, $1))
        from pg_trigger t
        join pg_proc p on p.oid = t.tgfoid
        where not t.tgisinternal and p.pronamespace <> 'msrepl'::regnamespace
          and (t.tgrelid = $1
               or t.tgparentid = 0 and t.tgrelid in (select b.relid from pg_partition_tree($1) as b))
      union all
        select format('constraint %I %s %s', c.conname, c.conrelid::regclass,
                      regexp_replace(pg_get_constraintdef(c.oid), ' DEFERRABLE( INITIALLY DEFERRED)?', ''))
        from pg_constraint c
        where $1 in (c.conrelid, c.confrelid) and c.contype in ('p', 'u', 'f', 'x') and c.conparentid = 0
      union all
        select format('unique %s', pg_get_indexdef(x.indexrelid))
        from pg_index x
        where x.indrelid = $1 and x.indisunique and x.indisvalid
      union all
        select format('rule %I', r.rulename)
        from pg_rewrite r
        where r.ev_class = $1
      union all
        select format('inherits %s %s', i.inhparent::regclass, i.inhrelid::regclass)
        from pg_inherits i
        where $1 in (i.inhparent, i.inhrelid)
      union all
        select format('partition %s %s', p.parentrelid, p.relid)
        from pg_partition_tree($1) p
        where p.level > 1
    ) as parts(part)
$msrepl$;
alter function msrepl.table_structure(oid) owner to {owner};
revoke all on function msrepl.table_structure(oid) from public;
comment on function msrepl.table_structure(oid) is 'Digest of a table''s structure: a change makes generated objects stale';
