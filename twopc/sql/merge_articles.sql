-- msrepl.merge_articles: the articles of this database, what is sent of each, and how its conflicts are resolved.
-- called by: merge agents, at the beginning of a session
-- tables:    msrepl.sysmergearticles, catalogs
-- holes:     owner
--
-- types are those of the columns, and base types for domains; parents are the articles to which it refers.
create or replace function msrepl.merge_articles()
returns table (
    artid uuid, name text, parents uuid[], columns text[], types oid[], column_tracking boolean,
    article_resolver text, compensate_for_errors boolean, upload_options text, delete_tracking boolean,
    conflict_logging text, is_filtered boolean, has_ranges boolean, numbers integer[]
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    select a.artid, case a.source_schema when 'public' then '' else a.source_schema || '.' end || a.source_object, array(
        select distinct p.artid from pg_constraint as k
        join msrepl.sysmergearticles as p on p.objid = k.confrelid and p.objid <> k.conrelid
        where k.conrelid = a.objid and k.contype = 'f' order by p.artid),
        a.columns, array(
        select coalesce(nullif(t.typbasetype, 0), t.oid, 0) from unnest(a.columns) with ordinality as c(name, place)
        left join pg_attribute as b on b.attrelid = a.objid and b.attname = c.name and not b.attisdropped
        left join pg_type as t on t.oid = b.atttypid order by c.place),
        a.column_tracking, a.article_resolver, a.compensate_for_errors, a.upload_options, a.delete_tracking,
        a.conflict_logging, exists (select from msrepl.sysmergepartitioninfo as i where i.artid = a.artid),
        a.identity_column is not null, a.column_numbers
    from msrepl.sysmergearticles as a
    order by a.nickname
$msrepl$;
alter function msrepl.merge_articles() owner to {owner};
revoke all on function msrepl.merge_articles() from public;
comment on function msrepl.merge_articles() is 'The articles, and what a session needs to know of each';
