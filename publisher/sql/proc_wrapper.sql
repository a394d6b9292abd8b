-- What stands in the place of a published routine, under its name: calls the runner.
-- called by: everybody who calls the routine
-- tables:    none
-- holes:     kind, name, parameters, returns, attributes, call
create or replace {kind} {name}({parameters}){returns}
language plpgsql{attributes}
as $msrepl$
begin
    {call}
end
$msrepl$;
