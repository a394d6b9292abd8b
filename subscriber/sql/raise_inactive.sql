-- msrepl.raise_inactive: the error of the triggers of an inactive subscription.
-- called by: capture triggers, put in place by msrepl.deactivate
-- tables:    msrepl.mssubscription_agents
-- holes:     owner
create or replace function msrepl.raise_inactive() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    reason text;
begin
    select a.status_reason into reason from msrepl.mssubscription_agents as a;
    raise exception 'the subscription of this database is inactive: %', reason
        using errcode = 'object_not_in_prerequisite_state',
              detail = json_build_object('kind', 'inactive', 'number', 21064)::text,
              hint = 'Remove the cause, then run: twopc activate';
end
$msrepl$;
alter function msrepl.raise_inactive() owner to {owner};
revoke all on function msrepl.raise_inactive() from public;
comment on function msrepl.raise_inactive() is 'Refuses a change because the subscription is inactive';
