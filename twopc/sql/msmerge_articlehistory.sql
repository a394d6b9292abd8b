-- msrepl.msmerge_articlehistory: what a session has done to each article.
-- called by: msrepl.merge_end_session
-- tables:    itself; msrepl.msmerge_sessions
-- holes:     owner
--
-- phase_id: 1 upload, 2 download. rows counts the rows written, deletes those of them that were deleted.
create table if not exists msrepl.msmerge_articlehistory (
    session_id int8 not null references msrepl.msmerge_sessions on delete cascade,
    phase_id smallint not null check (phase_id in (1, 2)),
    article_name text not null,
    rows integer not null,
    deletes integer not null,
    conflicts integer not null,
    rows_deferred integer not null,
    rows_retried integer not null,
    primary key (session_id, phase_id, article_name)
);
alter table msrepl.msmerge_articlehistory owner to {owner};
revoke all on msrepl.msmerge_articlehistory from public;
comment on table msrepl.msmerge_articlehistory is 'What each session has done to each article';
