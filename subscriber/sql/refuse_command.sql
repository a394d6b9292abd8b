-- msrepl.refuse_command: refuses a command for which this Subscriber has no procedure.
-- called by: the distribution agent's statement
-- tables:    none
-- holes:     owner, agent
create or replace function msrepl.refuse_command(code integer) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    raise exception 'nothing takes commands of kind % of article %', code % 100, code / 100
        using errcode = 'object_not_in_prerequisite_state',
              hint = 'How the article is propagated was changed after they were stored: set it back, or'
                     ' initialise the subscription again.';
end
$msrepl$;
alter function msrepl.refuse_command(integer) owner to {owner};
revoke all on function msrepl.refuse_command(integer) from public;
grant execute on function msrepl.refuse_command(integer) to {agent};
comment on function msrepl.refuse_command(integer) is 'Refuses a command that nothing takes';
