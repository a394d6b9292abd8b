-- msrepl_body_<n>: the schema that holds a published routine's body, and nothing else.
-- called by: twopc.publisher.proc_execution
-- tables:    none
-- holes:     name
--
-- The body keeps its name, since its text may qualify arguments with it: name.argument.
create schema {name};
grant usage on schema {name} to public;
