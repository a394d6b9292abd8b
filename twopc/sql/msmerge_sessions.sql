-- msrepl.msmerge_sessions: the sessions of each Subscriber that have ended here.
-- called by: msrepl.merge_end_session
-- tables:    itself
-- holes:     owner
--
-- duration is in seconds. runstatus: 2 succeeded; 6 failed, and error says why. Rows are those that were written.
create table if not exists msrepl.msmerge_sessions (
    session_id int8 generated always as identity primary key,
    subscriber_server text not null,
    start_time timestamptz not null,
    end_time timestamptz not null,
    duration real not null,
    upload_rows integer not null,
    download_rows integer not null,
    conflicts integer not null,
    rows_deferred integer not null,
    rows_retried integer not null,
    metadata_rows_cleanedup integer not null,
    resumed boolean not null,
    anew boolean not null,
    runstatus smallint not null check (runstatus in (2, 6)),
    error text
);
alter table msrepl.msmerge_sessions owner to {owner};
revoke all on msrepl.msmerge_sessions from public;
comment on table msrepl.msmerge_sessions is 'Sessions that have ended here';
