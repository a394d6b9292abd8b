-- mssync_shape_<table>: the one shape of rows that the sync procedures of an article take.
-- called by: first parameter of the sync procedures
-- tables:    none
-- holes:     type, shape, owner, comment
--
-- A type, because the server reads arguments from left to right: rows of another shape are not even read.
create type {type} as enum ({shape});
alter type {type} owner to {owner};
revoke all on type {type} from public;
comment on type {type} is {comment};
