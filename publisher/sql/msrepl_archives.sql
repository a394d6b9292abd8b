-- msrepl.msrepl_archives: archives that append what is stored here, and the position up to which each has done so.
-- called by: twopc.publisher.distribution (clean_up), twopc.sim.spark.archive
-- tables:    itself
-- holes:     none
--
-- Clean-up keeps what comes after an archive's position, as for a subscription, provided that the archive was
-- appended to within the retention of archives.
create table if not exists msrepl.msrepl_archives (
    publisher_database_id integer not null references msrepl.mspublisher_databases on delete cascade,
    archive text not null,
    folder text not null,
    position pg_lsn not null,
    appended_at timestamptz not null default clock_timestamp(),
    primary key (publisher_database_id, archive)
);
comment on table msrepl.msrepl_archives is 'Archives that append what is stored here, and up to where each has it';
