-- msrepl.merge_articles: the articles of this database, and to which others each refers.
-- called by: merge agents, at the beginning of a session
-- tables:    msrepl.sysmergearticles, catalogs
-- holes:     owner
create or replace function msrepl.merge_articles()
returns table (artid uuid, nickname integer, name text, parents uuid[])
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    select a.artid, a.nickname, a.source_schema || '.' || a.source_object, array(
        select distinct p.artid from pg_constraint as k
        join msrepl.sysmergearticles as p on p.objid = k.confrelid and p.objid <> k.conrelid
        where k.conrelid = a.objid and k.contype = 'f' order by p.artid)
    from msrepl.sysmergearticles as a
    order by a.nickname
$msrepl$;
alter function msrepl.merge_articles() owner to {owner};
revoke all on function msrepl.merge_articles() from public;
comment on function msrepl.merge_articles() is 'The articles, and to which others each refers';
