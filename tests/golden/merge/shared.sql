-- msrepl.msmerge_replica: which replica this database is.
-- called by: twopc.drivers.merge.tracking, and every function of merge replication
-- tables:    itself
-- holes:     owner
--
-- The number stands for the database in lineages. System identifier and database OID say for which database it
-- was drawn: a copy made by pg_restore or by a logical copy has other transaction ids, and must not use it.
create table if not exists msrepl.msmerge_replica (
    replica int8 not null check (replica between 1 and 4294967295),
    system_identifier int8 not null,
    database oid not null,
    only_one boolean primary key default true check (only_one)
);
alter table msrepl.msmerge_replica owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_replica from public;
comment on table msrepl.msmerge_replica is 'The number by which lineages name this database, and for which database it was drawn';

-- msrepl.sysmergearticles: the tables that merge replication tracks in this database.
-- called by: twopc.drivers.merge.tracking
-- tables:    itself
-- holes:     owner
--
-- artid and nickname are the same at every node. rowguid is the column by which a row is known everywhere;
-- columns are those that travel, in the order of the versions in colv.
create table if not exists msrepl.sysmergearticles (
    artid uuid primary key,
    nickname integer not null unique,
    objid oid not null unique,
    source_schema text not null,
    source_object text not null,
    rowguid text not null,
    added_rowguid boolean not null,
    column_tracking boolean not null,
    columns text[] not null,
    created_table boolean not null default false,
    unique (source_schema, source_object)
);
alter table msrepl.sysmergearticles owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.sysmergearticles from public;
comment on table msrepl.sysmergearticles is 'Tables tracked for merge replication';

-- msrepl.msmerge_genhistory: the generations that were closed here.
-- called by: msrepl.merge_close, msrepl.msmerge_contents, msrepl.msmerge_tombstone
-- tables:    itself
-- holes:     owner
--
-- A generation is a snapshot: a row belongs to it if the transaction that changed the row last is visible in snap
-- and in that of no earlier generation. Nothing is stamped afterwards, so nobody waits, and a transaction that
-- commits late falls into the next generation. Generation 0 holds nothing.
create table if not exists msrepl.msmerge_genhistory (
    generation int8 primary key,
    guidsrc uuid not null unique default gen_random_uuid(),
    genstatus smallint not null default 1 check (genstatus in (1, 2)),
    coldate timestamptz not null default clock_timestamp(),
    snap pg_snapshot not null
);
insert into msrepl.msmerge_genhistory (generation, snap) values (0, '1:1:') on conflict (generation) do nothing;
alter table msrepl.msmerge_genhistory owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_genhistory from public;
comment on table msrepl.msmerge_genhistory is 'Closed generations, each with the snapshot that it is';

-- msrepl.msmerge_metadata: what is known of each row that was changed, a partition per article.
-- called by: the triggers of articles; msrepl.msmerge_contents, msrepl.msmerge_tombstone
-- tables:    itself
-- holes:     owner
--
-- xid is the transaction that changed the row last, own the version that this database gave it last (0: none),
-- top the highest version of any replica. lineage holds the versions of the other replicas, each packed as
-- replica * 2^31 + version; so does colv for each column, where replica 0 is this database, and 0 no change.
-- source is the replica of the neighbour that the present version came from, NULL if it was made here; writer
-- that of whoever made it.
create table if not exists msrepl.msmerge_metadata (
    tablenick integer not null,
    rowguid uuid not null,
    xid xid8 not null,
    gone boolean not null,
    own integer not null,
    top integer not null,
    lineage int8[],
    colv int8[],
    source int8,
    writer int8
) partition by list (tablenick);
alter table msrepl.msmerge_metadata owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_metadata from public;
comment on table msrepl.msmerge_metadata is 'One row for each row of an article that was changed or deleted';

-- msrepl.merge_lineage: the whole lineage of a row, this database's own version among it.
-- called by: whatever reads msrepl.msmerge_metadata
-- tables:    none
-- holes:     owner
create or replace function msrepl.merge_lineage(lineage int8[], replica int8, own integer) returns int8[]
language sql immutable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select array(
        select v from unnest(case when own > 0 then array[replica << 31 | own] || coalesce(lineage, '{}')
                                  else coalesce(lineage, '{}') end) as v
        order by v)
$msrepl$;
alter function msrepl.merge_lineage(int8[], int8, integer) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_lineage(int8[], int8, integer) from public;
comment on function msrepl.merge_lineage(int8[], int8, integer) is 'The versions of all replicas that a row stands on';

-- msrepl.merge_colv: column versions as other replicas read them.
-- called by: whatever reads msrepl.msmerge_metadata
-- tables:    none
-- holes:     owner
create or replace function msrepl.merge_colv(colv int8[], replica int8) returns int8[]
language sql immutable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select case when colv is not null then array(
        select case when c.v between 1 and 2147483647 then replica << 31 | c.v else c.v end
        from unnest(colv) with ordinality as c(v, place) order by c.place) end
$msrepl$;
alter function msrepl.merge_colv(int8[], int8) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_colv(int8[], int8) from public;
comment on function msrepl.merge_colv(int8[], int8) is 'Column versions, each with the number of its replica';

-- msrepl.merge_generation: the generation that a change belongs to.
-- called by: msrepl.msmerge_contents, msrepl.msmerge_tombstone
-- tables:    msrepl.msmerge_genhistory
-- holes:     owner
--
-- What no closed generation holds is in the open one, whose number is the next.
create or replace function msrepl.merge_generation(changed xid8) returns int8
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select coalesce(min(g.generation) filter (where pg_visible_in_snapshot(changed, g.snap)),
                    max(g.generation) + 1)
    from msrepl.msmerge_genhistory as g
$msrepl$;
alter function msrepl.merge_generation(xid8) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_generation(xid8) from public;
comment on function msrepl.merge_generation(xid8) is 'The generation that a transaction''s changes are in';

-- msrepl.msmerge_contents: a row for each row of an article that was inserted or updated.
-- called by: whoever looks
-- tables:    msrepl.msmerge_metadata, msrepl.msmerge_genhistory, msrepl.msmerge_replica
-- holes:     owner
create or replace view msrepl.msmerge_contents as
select m.tablenick, m.rowguid, msrepl.merge_generation(m.xid) as generation,
       msrepl.merge_lineage(m.lineage, r.replica, m.own) as lineage, msrepl.merge_colv(m.colv, r.replica) as colv1
from msrepl.msmerge_metadata as m, msrepl.msmerge_replica as r
where not m.gone;
alter view msrepl.msmerge_contents owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_contents from public;
comment on view msrepl.msmerge_contents is 'A row for each row of an article that was inserted or updated. msmerge_tombstone holds those that were deleted';

-- msrepl.msmerge_tombstone: a row for each row of an article that was deleted.
-- called by: whoever looks
-- tables:    msrepl.msmerge_metadata, msrepl.msmerge_genhistory, msrepl.msmerge_replica
-- holes:     owner
create or replace view msrepl.msmerge_tombstone as
select m.rowguid, m.tablenick, 1::smallint as type, msrepl.merge_generation(m.xid) as generation,
       msrepl.merge_lineage(m.lineage, r.replica, m.own) as lineage
from msrepl.msmerge_metadata as m, msrepl.msmerge_replica as r
where m.gone;
alter view msrepl.msmerge_tombstone owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_tombstone from public;
comment on view msrepl.msmerge_tombstone is 'A row for each row of an article that was deleted. Of type 1: deleted by a user';

-- msrepl.merge_close: closes the open generation, if anything is in it (sp_MSmakegeneration).
-- called by: merge agents, as the first query of a REPEATABLE READ transaction that has locked msmerge_genhistory
-- tables:    msrepl.msmerge_genhistory, msrepl.msmerge_metadata
-- holes:     owner
--
-- The lock comes first, and by LOCK TABLE, which takes no snapshot: of two agents the second then sees the
-- generation of the first. Without it the second fails with a duplicate generation; only agents wait for it.
-- Returns the newest closed generation, which is the caller's snapshot, or holds all that this would hold.
create or replace function msrepl.merge_close(out generation int8, out guid uuid)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    last msrepl.msmerge_genhistory;
begin
    select g.* into last from msrepl.msmerge_genhistory as g order by g.generation desc limit 1;
    if exists (select from msrepl.msmerge_metadata as m
               where m.xid >= pg_snapshot_xmin(last.snap) and not pg_visible_in_snapshot(m.xid, last.snap)) then
        insert into msrepl.msmerge_genhistory as g (generation, snap)
        values (last.generation + 1, pg_current_snapshot())
        returning g.* into last;
    end if;
    generation := last.generation;
    guid := last.guidsrc;
end
$msrepl$;
alter function msrepl.merge_close() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_close() from public;
comment on function msrepl.merge_close() is 'Closes a generation, and tells the newest';

-- msrepl.merge_refuse_rowguid: the column by which a row is known everywhere keeps its value.
-- called by: AFTER UPDATE trigger of every article, for a row whose value changed
-- tables:    none
-- holes:     owner
create or replace function msrepl.merge_refuse_rowguid() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    raise exception 'column % of table %.% cannot be updated: rows are known by it at every node (20062)',
        tg_argv[0], tg_table_schema, tg_table_name
        using errcode = 'object_not_in_prerequisite_state',
              hint = 'Delete the row, and insert it with another value.';
end
$msrepl$;
alter function msrepl.merge_refuse_rowguid() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_refuse_rowguid() from public;
comment on function msrepl.merge_refuse_rowguid() is 'Refuses an update of the column by which rows are known';

-- msrepl.refuse_truncate: TRUNCATE names no rows, so it can be neither compared nor replicated.
-- called by: BEFORE TRUNCATE trigger of every published or subscribed table
-- tables:    none
-- holes:     owner
create or replace function msrepl.refuse_truncate() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    raise exception 'table %.% is replicated: TRUNCATE is refused', tg_table_schema, tg_table_name
        using errcode = 'feature_not_supported',
              hint = 'Use DELETE, or drop the article first.';
end
$msrepl$;
alter function msrepl.refuse_truncate() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.refuse_truncate() from public;
comment on function msrepl.refuse_truncate() is 'Refuses TRUNCATE of a replicated table';
