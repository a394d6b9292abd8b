-- msrepl.defer_keys: defers the foreign keys between published tables, or checks them.
-- called by: a Subscriber over its link, around the calls of one statement
-- tables:    msrepl.sysarticles; catalogs
-- holes:     owner
--
-- A statement at a Subscriber changes parents and children at once, but its calls come one after the other,
-- so the keys are checked after the last call. Keys that their owner has made initially deferred stay
-- deferred. A missing row may belong to a branch that is finished at the Subscriber but not yet here.
create or replace procedure msrepl.defer_keys(defer boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    keys text;
begin
    select string_agg(distinct format('%I.%I', n.nspname, c.conname), ', ') into keys
    from msrepl.sysarticles as a
    join pg_constraint as c on c.conrelid = a.objid and c.contype = 'f' and c.condeferrable and not c.condeferred
    join pg_namespace as n on n.oid = c.connamespace
    where c.confrelid in (select p.objid from msrepl.sysarticles as p);
    if keys is not null then
        begin
            execute 'set constraints ' || keys || case when defer then ' deferred' else ' immediate' end;
        exception when foreign_key_violation then
            perform msrepl.await_branches(array(select a.objid from msrepl.sysarticles as a));
            execute 'set constraints ' || keys || ' immediate';
        end;
    end if;
end
$msrepl$;
alter procedure msrepl.defer_keys(boolean) owner to {owner};
revoke all on procedure msrepl.defer_keys(boolean) from public;
comment on procedure msrepl.defer_keys(boolean) is 'Defers the foreign keys between published tables, or checks them';
