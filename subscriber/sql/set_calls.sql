-- msrepl.set_<article>_<operation>: a run of calls for one article and operation, as one statement.
-- called by: the distribution agent
-- tables:    the subscribed table; msrepl.msreplication_procedures
-- holes:     function, article_id, operation, call_type, statement, computed, runs_as, path_stays, owner, agent, comment
--
-- It does what the default procedure would do call by call, or nothing at all and returns -1: a row is not
-- here, a key is there twice, a value clashes (if only on its way to another row), a call does not
-- fit, or somebody has replaced the procedure. Then the calls are to be made one by one, and whatever is
-- wrong with one of them is said there.
create function {function}(commands text[]) returns bigint
language plpgsql security definer
as $msrepl$
#variable_conflict use_variable
declare
    path constant text := pg_catalog.current_setting('search_path');
    rows {call_type}[];
    done bigint;
begin
{runs_as}    if not msrepl.is_default_procedure({article_id}, {operation}) then
        return -1;
    end if;
    begin
        rows := commands::{call_type}[];
        {statement};
        get diagnostics done = row_count;
        if done <> cardinality(rows) then
            raise exception using errcode = 'no_data_found';
        end if;{computed}
    exception
        when no_data_found or unique_violation or exclusion_violation or data_exception then
            return -1;
    end;
{path_stays}    return done;
end
$msrepl$;
alter function {function}(text[]) owner to {owner};
revoke all on function {function}(text[]) from public;
grant execute on function {function}(text[]) to {agent};
comment on function {function}(text[]) is {comment};
