-- msrepl_call.run_<n>: runs a published routine's body between the two call markers.
-- called by: the wrapper in the routine's place
-- tables:    none
-- holes:     kind, name, parameters, returns, article, arguments, variables, body, answer
--
-- The setting makes the call one statement: a COMMIT in the body is refused. msrepl.in_call names the
-- article of the running call, so that nested calls are recognised; an error restores it.
create or replace {kind} msrepl_call.{name}({parameters}){returns}
language plpgsql
set msrepl.one_statement = on
as $msrepl$
declare
    opened bigint;
    closed text;
    failure text;
    nested constant text := nullif(pg_catalog.current_setting('msrepl.in_call', true), '');{variables}
begin
    closed := pg_catalog.set_config('msrepl.in_call', {article}::text, true);
    opened := msrepl_call.open_bracket({article}, msrepl_call.{arguments});
{body}
    closed := pg_catalog.set_config('msrepl.in_call', coalesce(nested, ''), true);
    if opened is not null then
        closed := msrepl_call.close_bracket({article}, opened, failure);
    end if;{answer}
end
$msrepl$;
