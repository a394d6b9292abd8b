-- msrepl.set_<article>_<operation>: makes a run of calls for one article and operation in one statement.
-- called by: the distribution agent
-- tables:    the subscribed table; msrepl.msreplication_procedures
-- holes:     function, article_id, operation, call_type, statement, computed, runs_as, path_stays, owner, agent, comment
--
-- It does what the default procedure would do call by call, or nothing at all and returns -1: a row is missing, a key
-- occurs twice, a unique value is taken (even if another row is about to give it up), a call does not fit, or the
-- procedure was replaced. The calls must then be made one by one, which reports what is wrong with one of them.
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
