-- msmerge_conflict_<publication>_<article>: rows that have lost a conflict, or could not be applied.
-- called by: msmerge_log_<artid>
-- tables:    itself
-- holes:     table, rowguid, columns, owner, role, comment
create table {table} (msrepl_conflict_id uuid primary key, {rowguid} uuid not null, {columns});
alter table {table} owner to {owner};
revoke all on {table} from public;
grant select, insert, update on {table} to {role};
comment on table {table} is {comment};
