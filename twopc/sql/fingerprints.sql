-- msrepl.fingerprints: what must not be changed of a table and its partitions, one text for each object.
-- called by: publish/subscribe, missing_fingerprint
-- tables:    catalogs
-- holes:     owner, pinned, more
--
-- The objects are our triggers, with everything that determines whether, when and what they execute. The names of
-- the table and of its columns are not included. A text begins with the oid of the relation and ends with a digest.
create or replace function msrepl.fingerprints(relid oid) returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
{pinned}
as $msrepl$
    with relations as (
        select $1 as oid union select p.relid from pg_partition_tree($1) as p
    )
    select array(
        select format('%s trigger %I %s', t.tgrelid, t.tgname, md5(row(
            t.tgfoid, t.tgtype, t.tgenabled, t.tgattr, t.tgqual, t.tgargs, t.tgoldtable, t.tgnewtable)::text))
        from relations as r
        join pg_trigger as t on t.tgrelid = r.oid
        join pg_proc as p on p.oid = t.tgfoid
        where not t.tgisinternal and p.pronamespace = 'msrepl'::regnamespace{more}
        order by 1)
$msrepl$;
alter function msrepl.fingerprints(oid) owner to {owner};
revoke all on function msrepl.fingerprints(oid) from public;
comment on function msrepl.fingerprints(oid) is 'What must stay as it was made of a table and its partitions';
