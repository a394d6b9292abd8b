-- msrepl.msmerge_metadata_<nickname>: metadata of the changed rows of one article.
-- called by: the triggers of the article
-- tables:    itself
-- holes:     table, tablenick, index, owner
create table {table} partition of msrepl.msmerge_metadata (primary key (rowguid))
    for values in ({tablenick}) with (fillfactor = 90);
create index {index} on {table} (xid);
alter table {table} owner to {owner};
revoke all on {table} from public;
