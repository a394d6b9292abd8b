-- msrepl.msmerge_replica: the replica number of this database.
-- called by: twopc.drivers.merge.tracking, and every function of merge replication
-- tables:    itself
-- holes:     owner
--
-- The number stands for the database in lineages; former are those that it had before it was restored. System
-- identifier and database OID identify the database for which it was drawn: a copy made by pg_restore or by a
-- logical copy has other transaction ids, and must not use it. The metadata of generation `cleaned` and those before
-- it has been removed.
create table if not exists msrepl.msmerge_replica (
    replica int8 not null check (replica between 1 and 4294967295),
    former int8[] not null default array[]::int8[],
    system_identifier int8 not null,
    database oid not null,
    cleaned int8 not null default 0,
    only_one boolean primary key default true check (only_one)
);
alter table msrepl.msmerge_replica owner to {owner};
revoke all on msrepl.msmerge_replica from public;
comment on table msrepl.msmerge_replica is 'The number by which lineages name this database, and for which database it was drawn';
