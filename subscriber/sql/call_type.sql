-- msrepl.call_<article>_<operation>, msrepl.image_<article>, msrepl.key_<article>: the types of what a call carries.
-- called by: msrepl.apply_<article>_<operation>, and procedures with more parameters than PostgreSQL allows
-- tables:    none
-- holes:     type, attributes, owner, agent, comment
create type {type} as ({attributes});
alter type {type} owner to {owner};
revoke all on type {type} from public;
grant usage on type {type} to {agent};
comment on type {type} is {comment};
