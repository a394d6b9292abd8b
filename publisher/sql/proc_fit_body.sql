-- msrepl.proc_fit_body: gives a published routine's body the owner and the privileges of the routine.
-- called by: twopc.publisher.proc_execution, proc_ddl_guard
-- tables:    msrepl.sysprocarticles; catalogs
-- holes:     owner
--
-- It runs with the rights of the caller, who must be an administrator. Its own commands are DDL too; `working`
-- prevents the guard from treating them as DDL of others.
create or replace function msrepl.proc_fit_body(article integer) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    routine pg_proc;
    body pg_proc;
    entry record;
    was boolean;
begin
    select a.working into was from msrepl.sysprocarticles as a where a.article_id = article;
    update msrepl.sysprocarticles as a set working = true where a.article_id = article and not a.working;
    select p.* into strict routine
    from msrepl.sysprocarticles as a join pg_proc as p on p.oid = a.objid where a.article_id = article;
    select p.* into strict body
    from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
    where n.nspname = 'msrepl_body_' || article;
    if body.proowner <> routine.proowner then
        execute format('alter routine %s owner to %s', body.oid::regprocedure, routine.proowner::regrole);
    end if;
    for entry in
        select distinct x.grantee from aclexplode(coalesce(body.proacl, acldefault('f', body.proowner))) as x
    loop
        execute format('revoke all on routine %s from %s cascade', body.oid::regprocedure,
                       case entry.grantee when 0 then 'public' else entry.grantee::regrole::text end);
    end loop;
    for entry in
        select distinct x.grantee from aclexplode(coalesce(routine.proacl, acldefault('f', routine.proowner))) as x
    loop
        execute format('grant execute on routine %s to %s', body.oid::regprocedure,
                       case entry.grantee when 0 then 'public' else entry.grantee::regrole::text end);
    end loop;
    update msrepl.sysprocarticles as a set working = was where a.article_id = article and a.working <> was;
end
$msrepl$;
alter function msrepl.proc_fit_body(integer) owner to {owner};
revoke all on function msrepl.proc_fit_body(integer) from public;
comment on function msrepl.proc_fit_body(integer) is 'Gives a published routine''s body the owner and the rights of the routine';
