-- msrepl.apply_<article>_<operation>, SQL: executes one command that is a statement.
-- called by: the distribution agent, for every row of a block
-- tables:    the subscribed table
-- holes:     function, operation, article, runs_as, path_stays, owner, agent, comment
--
-- The statement runs with the rights of the table's role. No search_path is set: the statement qualifies its table.
create function {function}(command text) returns void
language plpgsql security definer
as $msrepl$
declare
    path constant text := pg_catalog.current_setting('search_path');
    done bigint;
begin
{runs_as}    execute command;
    get diagnostics done = row_count;
    if done = 0 then
        perform msrepl.sp_msreplraiserror(20598, {operation}, {article}, null, command);
    end if;
{path_stays}end
$msrepl$;
alter function {function}(text) owner to {owner};
revoke all on function {function}(text) from public;
grant execute on function {function}(text) to {agent};
comment on function {function}(text) is {comment};
