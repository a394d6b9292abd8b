-- mssync_back_row_<table>: rows as the Publisher stored them.
-- called by: trg_mssync_back_<table>
-- tables:    none
-- holes:     type, attributes, owner, comment
drop type if exists {type} cascade;
create type {type} as ({attributes});
alter type {type} owner to {owner};
revoke all on type {type} from public;
comment on type {type} is {comment};
