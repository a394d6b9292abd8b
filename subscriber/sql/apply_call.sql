-- msrepl.apply_<article>_<operation>: passes one command, as it is stored, to the procedure of its article.
-- called by: the distribution agent, for every row of a block
-- tables:    none
-- holes:     function, call_type, article, procedure_text, invocation, runs_as, path_stays, owner, agent, comment
--
-- The inner block changes nothing, so it takes no subtransaction id. No search_path is set: see sp_msins_<table>.
create function {function}(command text) returns void
language plpgsql security definer
as $msrepl$
declare
    path constant text := pg_catalog.current_setting('search_path');
    c {call_type};
    done boolean;
    more text;
begin
{runs_as}    begin
        c := command::{call_type};
    exception
        when data_exception then
            get stacked diagnostics more = pg_exception_detail;
            perform msrepl.raise_unfit_call({article}, {procedure_text}, sqlstate, sqlerrm, more);
    end;
    {invocation};
{path_stays}end
$msrepl$;
alter function {function}(text) owner to {owner};
revoke all on function {function}(text) from public;
grant execute on function {function}(text) to {agent};
comment on function {function}(text) is {comment};
