-- mssync_<what>_row_<table>: the type of one article's rows as a Subscriber sends them.
-- called by: parameters of the sync procedures
-- tables:    none
-- holes:     type, attributes, owner, comment
create type {type} as ({attributes});
alter type {type} owner to {owner};
revoke all on type {type} from public;
comment on type {type} is {comment};
