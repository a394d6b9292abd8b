-- msrepl.msmerge_conflicts_info: conflicts, and changes that could not be applied here.
-- called by: msrepl.merge_record_conflicts, msrepl.merge_record_failure, msrepl.merge_log_conflicts
-- tables:    itself
-- holes:     owner
--
-- is_pending: the change failed, and is sent again in each session. recipient is a Subscriber where the conflict is to
-- be recorded too, and is not yet. origin_datasource_id is the replica of the node whose change has lost. reason_code
-- is the type of a conflict, or the SQLSTATE of a change that failed. The row of the loser is in the article's
-- msmerge_conflict_<publication>_<article>, unless it was deleted; missing_columns are the numbers of columns that were
-- added since, for which it has no value.
create table if not exists msrepl.msmerge_conflicts_info (
    conflict_id uuid primary key,
    tablenick integer not null,
    rowguid uuid not null,
    origin_datasource text not null,
    origin_datasource_id int8,
    conflict_type smallint not null check (conflict_type between 1 and 14),
    reason_code text not null,
    reason_text text not null,
    winner text,
    recipient text,
    is_pending boolean not null default false,
    missing_columns integer[] not null default '{{}}',
    msrepl_create_time timestamptz not null default clock_timestamp()
);
create index if not exists msmerge_conflicts_info_row on msrepl.msmerge_conflicts_info (tablenick, rowguid);
create index if not exists msmerge_conflicts_info_pending on msrepl.msmerge_conflicts_info (origin_datasource_id) where is_pending;
alter table msrepl.msmerge_conflicts_info owner to {owner};
revoke all on msrepl.msmerge_conflicts_info from public;
comment on table msrepl.msmerge_conflicts_info is 'Conflicts and failed changes: whose change lost, and why';
