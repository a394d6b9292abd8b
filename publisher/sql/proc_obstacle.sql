-- msrepl.proc_obstacle: finds a trigger, rule or referential action that acts when a call changes these
-- tables at the Publisher, but not at a Subscriber.
-- called by: twopc.publisher.proc_execution, proc_ddl_guard
-- tables:    msrepl.sysarticles; catalogs
-- holes:     owner, pinned
--
-- Agents work as replicas, so triggers and referential actions do nothing at a Subscriber.
--
-- writes   names of articles; NULL: all articles, as also if one of the names no longer exists
-- returns  a sentence about the first obstacle; NULL: there is none
create or replace function msrepl.proc_obstacle(writes text[]) returns text
language sql stable
set search_path = pg_catalog, pg_temp
{pinned}
as $msrepl$
    with known as (
        select a.objid, case a.source_schema when 'public' then a.source_object
                        else a.source_schema || '.' || a.source_object end as name
        from msrepl.sysarticles as a
    ), written as (
        select a.objid, a.name, p.relid
        from known as a
        cross join lateral (select a.objid as relid union select t.relid from pg_partition_tree(a.objid) as t) as p
        where writes is null or a.name = any (writes)
           or not writes <@ (select array_agg(k.name) from known as k)
    ), found as (
        select format('table %s has trigger %s', w.name, t.tgname) as obstacle
        from written as w
        join pg_trigger as t on t.tgrelid = w.relid
        join pg_proc as f on f.oid = t.tgfoid
        where not t.tgisinternal and t.tgenabled <> 'D' and f.pronamespace <> 'msrepl'::regnamespace
      union all
        select format('table %s has rule %s', w.name, r.rulename)
        from written as w join pg_rewrite as r on r.ev_class = w.relid
      union all
        select format('foreign key %s changes rows of table %s when those of table %s change',
                      k.conname, k.conrelid::regclass, w.name)
        from written as w join pg_constraint as k on k.confrelid = w.relid and k.contype = 'f'
        where k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd')
    )
    select f.obstacle || ', which does nothing at Subscribers' from found as f order by 1 limit 1
$msrepl$;
alter function msrepl.proc_obstacle(text[]) owner to {owner};
revoke all on function msrepl.proc_obstacle(text[]) from public;
comment on function msrepl.proc_obstacle(text[]) is 'What would do more to these tables than a call does at a Subscriber';
