-- msrepl.msmerge_genhistory: the generations that were closed here.
-- called by: msrepl.merge_close, msrepl.msmerge_contents, msrepl.msmerge_tombstone
-- tables:    itself
-- holes:     owner
--
-- A generation is a snapshot: a row belongs to it if the transaction that last changed the row is visible in snap
-- and in that of no earlier generation. Nothing is stamped afterwards, so no session waits, and a transaction that
-- commits late falls into the next generation. Generation 0 is empty. known_by is the Publisher's first generation
-- that contains all of this one and of those before.
create table if not exists msrepl.msmerge_genhistory (
    generation int8 primary key,
    guidsrc uuid not null unique default gen_random_uuid(),
    genstatus smallint not null default 1 check (genstatus in (1, 2)),
    coldate timestamptz not null default clock_timestamp(),
    snap pg_snapshot not null,
    known_by int8
);
insert into msrepl.msmerge_genhistory (generation, snap) values (0, '1:1:') on conflict (generation) do nothing;
alter table msrepl.msmerge_genhistory owner to {owner};
revoke all on msrepl.msmerge_genhistory from public;
comment on table msrepl.msmerge_genhistory is 'Closed generations, each with the snapshot that it is';
