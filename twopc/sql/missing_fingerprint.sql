-- msrepl.missing_fingerprint: names an object of a table, or of a partition that it still has, that is no longer as
-- it was made.
-- called by: ddl_guard
-- tables:    catalogs
-- holes:     owner
create or replace function msrepl.missing_fingerprint(relid oid, fingerprints text[]) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select format('%s of table %s', substring(f.text from ' (.*) '), f.relation::regclass)
    from (
        select k.text, split_part(k.text, ' ', 1)::oid as relation
        from (select msrepl.fingerprints($1) as texts offset 0) as present, unnest($2) as k(text)
        where k.text <> all (present.texts)
    ) as f
    where f.relation = $1 or f.relation in (select p.relid from pg_partition_tree($1) as p)
    order by f.text
    limit 1
$msrepl$;
alter function msrepl.missing_fingerprint(oid, text[]) owner to {owner};
revoke all on function msrepl.missing_fingerprint(oid, text[]) from public;
comment on function msrepl.missing_fingerprint(oid, text[]) is 'What of a table is not any more as it was made';
