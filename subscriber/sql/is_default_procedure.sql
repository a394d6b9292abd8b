-- msrepl.is_default_procedure: tells whether the default procedure of an article exists and has not been replaced.
-- called by: msrepl.set_<article>_<operation>, msrepl.net_<article>
-- tables:    msrepl.msreplication_procedures; catalogs
-- holes:     owner, agent
create or replace function msrepl.is_default_procedure(article_id integer, operation text) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select exists (
        select from msrepl.msreplication_procedures as p
        join pg_proc as q on q.oid = to_regprocedure(p.signature)
        where (p.article_id, p.operation) = ($1, $2) and p.is_default and p.digest = md5(q.prosrc))
$msrepl$;
alter function msrepl.is_default_procedure(integer, text) owner to {owner};
revoke all on function msrepl.is_default_procedure(integer, text) from public;
grant execute on function msrepl.is_default_procedure(integer, text) to {agent};
comment on function msrepl.is_default_procedure(integer, text)
    is 'Whether calls may be applied as a set: nobody has replaced the default procedure';
