-- msrepl.mssnapshotdeliveryprogress: the files of a snapshot that this database has, while it is being initialised.
-- called by: twopc.sim.merge.delivery
-- tables:    itself
-- holes:     owner
--
-- A row is written in the commit of the file's content. session_token stands for the snapshot: another one
-- has another token.
create table if not exists msrepl.mssnapshotdeliveryprogress (
    session_token text,
    progress_token text,
    progress_timestamp timestamptz not null default clock_timestamp(),
    primary key (session_token, progress_token)
);
alter table msrepl.mssnapshotdeliveryprogress owner to {owner};
revoke all on msrepl.mssnapshotdeliveryprogress from public;
comment on table msrepl.mssnapshotdeliveryprogress is 'Files of a snapshot that have been delivered here';
