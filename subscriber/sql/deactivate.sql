-- msrepl.deactivate: makes the subscription inactive: its tables refuse changes until it is activated.
-- called by: twopc.subscriber.subscription, register_article
-- tables:    msrepl.mssubscription_agents, msrepl.msreplication_objects
-- holes:     owner
--
-- Without a reason: brings objects made in the meantime into the state of the subscription. The state costs
-- nothing at run time: an inactive subscription has other trigger functions.
create or replace function msrepl.deactivate(reason text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    routine oid;
begin
    if $1 is not null then
        update msrepl.mssubscription_agents as a
        set status = 'inactive',
            status_reason = case when a.status = 'inactive' then a.status_reason || '; ' else '' end || $1;
    elsif not exists (select from msrepl.mssubscription_agents as a where a.status = 'inactive') then
        return;
    end if;
    for routine in select unnest(o.routines) from msrepl.msreplication_objects as o loop
        execute format(
            'create or replace function %s() returns trigger language plpgsql security definer '
            'set search_path = pg_catalog, pg_temp as %L',
            routine::regproc, 'begin perform msrepl.raise_inactive(); return null; end');
    end loop;
end
$msrepl$;
alter function msrepl.deactivate(text) owner to {owner};
revoke all on function msrepl.deactivate(text) from public;
comment on function msrepl.deactivate(text) is 'Makes the subscription inactive: its tables refuse changes';
