-- msrepl.change_<table>: changes a subscribed table for an administrator, in the name of the table's role.
-- called by: twopc.subscriber.table_changes, within whose transaction it exists
-- tables:    the subscribed table
-- holes:     function, runs_as, path_stays, owner, comment
--
-- No search_path is set: users' triggers that fire for agents look up objects as they do for an agent, and the
-- path is that of our caller, who takes care of it.
create function {function}(command text) returns bigint
language plpgsql security definer
as $msrepl$
declare
    path constant text := pg_catalog.current_setting('search_path');
    done bigint;
begin
{runs_as}    execute command;
    get diagnostics done = row_count;
{path_stays}    return done;
end
$msrepl$;
alter function {function}(text) owner to {owner};
revoke all on function {function}(text) from public;
comment on function {function}(text) is {comment};
