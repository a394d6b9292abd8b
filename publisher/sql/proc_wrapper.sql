-- The wrapper in the place of a published routine, under its name: calls the runner.
-- called by: callers of the routine
-- tables:    none
-- holes:     kind, name, parameters, returns, attributes, call
create or replace {kind} {name}({parameters}){returns}
language plpgsql{attributes}
as $msrepl$
begin
    {call}
end
$msrepl$;
