-- mssync_shape_<table>: the only shape of rows that the sync procedures of an article accept.
-- called by: first parameter of the sync procedures
-- tables:    none
-- holes:     type, shape, owner, comment
--
-- It is a type because the server reads arguments from left to right: rows of another shape are not even parsed.
create type {type} as enum ({shape});
alter type {type} owner to {owner};
revoke all on type {type} from public;
comment on type {type} is {comment};
