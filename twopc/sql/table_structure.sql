-- msrepl.table_structure: what procedures and triggers of a table were generated from, as a digest.
-- called by: publish/subscribe, and the event trigger that finds stale objects
-- tables:    pg_attribute, pg_attrdef, pg_trigger, pg_constraint, pg_index
-- holes:     owner
create or replace function msrepl.table_structure(relid oid) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select md5(string_agg(part, ' ' order by part))
    from (
        select format('column %s %s %s %s %s %s %s', a.attnum, a.attname, a.atttypid, a.atttypmod,
                      a.attnotnull, a.attidentity, a.attgenerated)
        from pg_attribute a
        where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped
      union all
        select format('default %s %s', d.adnum, pg_get_expr(d.adbin, d.adrelid))
        from pg_attrdef d
        where d.adrelid = $1
      union all
        select format('trigger %s %s %s', t.tgname, t.tgtype, t.tgenabled)
        from pg_trigger t
        join pg_proc p on p.oid = t.tgfoid
        join pg_namespace n on n.oid = p.pronamespace
        where t.tgrelid = $1 and not t.tgisinternal and n.nspname <> 'msrepl'
      union all
        select format('constraint %s %s %s %s %s %s', c.conname, c.contype, c.conkey, c.confkey,
                      c.confdeltype, c.confupdtype)
        from pg_constraint c
        where (c.conrelid = $1 or c.confrelid = $1) and c.contype in ('p', 'u', 'f') and c.conparentid = 0
      union all
        select format('unique %s %s', x.indexrelid, x.indkey)
        from pg_index x
        where x.indrelid = $1 and x.indisunique
      union all
        select format('table %s.%s', c.relnamespace, c.relname)
        from pg_class c
        where c.oid = $1
    ) as parts(part)
$msrepl$;
alter function msrepl.table_structure(oid) owner to {owner};
revoke all on function msrepl.table_structure(oid) from public;
comment on function msrepl.table_structure(oid) is 'Digest of a table''s structure: a change makes generated objects stale';
