-- msrepl_call.run_<n>: runs a published routine's body between the marks of a call.
-- called by: what stands in the routine's place
-- tables:    none
-- holes:     kind, name, parameters, returns, number, article, arguments, variables, body, answer
--
-- The setting makes it one statement: a COMMIT in the body is refused.
create or replace {kind} msrepl_call.{name}({parameters}){returns}
language plpgsql
set msrepl.in_call = {number}
as $msrepl$
declare
    opened bigint;
    closed text;
    failure text;
    stack text;{variables}
begin
    opened := msrepl_call.open_bracket({article}, msrepl_call.{arguments});
{body}
    if opened is not null then
        closed := msrepl_call.close_bracket({article}, opened, failure);
    end if;{answer}
end
$msrepl$;
