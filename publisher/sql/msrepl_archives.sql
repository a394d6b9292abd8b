-- msrepl.msrepl_archives: archives that append what is stored here, and up to where each has it.
-- called by: twopc.publisher.distribution (clean_up), twopc.sim.spark.archive
-- tables:    itself
-- holes:     none
--
-- Clean-up keeps what is after an archive's position, as it does for a subscription, as long as the archive was
-- appended to within its retention.
create table if not exists msrepl.msrepl_archives (
    publisher_database_id integer not null references msrepl.mspublisher_databases on delete cascade,
    archive text not null,
    folder text not null,
    position pg_lsn not null,
    appended_at timestamptz not null default clock_timestamp(),
    primary key (publisher_database_id, archive)
);
comment on table msrepl.msrepl_archives is 'Archives that append what is stored here, and up to where each has it';
