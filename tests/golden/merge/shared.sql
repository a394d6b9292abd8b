-- msrepl.msmerge_replica: which replica this database is.
-- called by: twopc.drivers.merge.tracking, and every function of merge replication
-- tables:    itself
-- holes:     owner
--
-- The number stands for the database in lineages; former are those that it had before it was restored. System
-- identifier and database OID say for which database it was drawn: a copy made by pg_restore or by a logical copy has
-- other transaction ids, and must not use it. What generation cleaned and those before it have changed is forgotten.
create table if not exists msrepl.msmerge_replica (
    replica int8 not null check (replica between 1 and 4294967295),
    former int8[] not null default array[]::int8[],
    system_identifier int8 not null,
    database oid not null,
    cleaned int8 not null default 0,
    only_one boolean primary key default true check (only_one)
);
alter table msrepl.msmerge_replica owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_replica from public;
comment on table msrepl.msmerge_replica is 'The number by which lineages name this database, and for which database it was drawn';

-- msrepl.sysmergepublications: what this database publishes, or subscribes to.
-- called by: twopc.drivers.merge.retention, twopc.drivers.merge.snapshots, msrepl.merge_is_expired, msrepl.merge_clean_up
-- tables:    itself
-- holes:     owner
--
-- retention is in days: a subscription that has had no session for so long has expired; 0: never. snapshot_folder is
-- where snapshots in files were written last.
create table if not exists msrepl.sysmergepublications (
    name text primary key,
    retention integer not null default 14 check (retention >= 0),
    snapshot_folder text,
    allow_subscriber_initiated_snapshot boolean not null default false
);
alter table msrepl.sysmergepublications owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.sysmergepublications from public;
comment on table msrepl.sysmergepublications is 'Publications, each with how long it keeps what is known of changed rows';

-- msrepl.sysmergearticles: the tables that merge replication tracks in this database.
-- called by: twopc.drivers.merge.tracking
-- tables:    itself
-- holes:     owner
--
-- artid and nickname are the same at every node. rowguid is the column by which a row is known everywhere;
-- columns are those that travel; column_numbers says which of the versions in colv is whose. checked_keys are the foreign keys and
-- the deferrable unique keys of which the triggers on this table are enabled ALWAYS, so that they are checked for
-- agents too; altered_keys are foreign keys that were made deferrable for them. cleanup_waits are the transactions for
-- whose end a clean-up waits. identity_sequence gives the values of a column with identity ranges at the topmost Publisher,
-- and counts places at a Subscriber; ranges hold values, as the original's do, and the threshold is in per cent.
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
    column_numbers integer[] not null,
    created_table boolean not null default false,
    publication text not null,
    article_resolver text,
    compensate_for_errors boolean not null default false,
    upload_options text not null default 'normal' check (upload_options in ('normal', 'kept', 'refused')),
    delete_tracking boolean not null default true,
    conflict_table text not null,
    conflict_logging text not null default 'publisher' check (conflict_logging in ('publisher', 'subscriber', 'both')),
    conflict_retention integer not null default 14 check (conflict_retention >= 0),
    checked_keys text[] default array[]::text[],
    altered_keys text[] not null default array[]::text[],
    cleanup_waits text[] not null default array[]::text[],
    identity_column text,
    identity_sequence oid,
    identity_step int8,
    identity_range int8,
    pub_identity_range int8,
    identity_threshold integer,
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
-- commits late falls into the next generation. Generation 0 holds nothing. known_by is the first generation of the
-- Publisher's that holds all of this one and of those before.
create table if not exists msrepl.msmerge_genhistory (
    generation int8 primary key,
    guidsrc uuid not null unique default gen_random_uuid(),
    genstatus smallint not null default 1 check (genstatus in (1, 2)),
    coldate timestamptz not null default clock_timestamp(),
    snap pg_snapshot not null,
    known_by int8
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
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if coalesce(own, 0) = 0 then
        return coalesce(lineage, '{}');
    elsif lineage is null or cardinality(lineage) = 0 then
        return array[replica << 31 | own];
    end if;
    return array(select v.v from unnest(lineage || (replica << 31 | own)) as v(v) order by v.v);
end
$msrepl$;
alter function msrepl.merge_lineage(int8[], int8, integer) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_lineage(int8[], int8, integer) from public;
comment on function msrepl.merge_lineage(int8[], int8, integer) is 'The versions of all replicas that a row stands on';

-- msrepl.merge_lineage_parts: a lineage as it is stored: the own version, the highest, and those of the others.
-- called by: msmerge_take_<artid>, for every row
-- tables:    none
-- holes:     owner
create or replace function msrepl.merge_lineage_parts(
    lineage int8[], replica int8, out own integer, out top integer, out others int8[]
)
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if cardinality(lineage) = 1 and lineage[1] >> 31 <> replica then  -- nearly always
        own := 0; top := lineage[1] & 2147483647; others := lineage;
    else
        select coalesce(max(v.v & 2147483647) filter (where v.v >> 31 = replica), 0), max(v.v & 2147483647),
               coalesce(array_agg(v.v order by v.v) filter (where v.v >> 31 <> replica), '{}')
        into own, top, others from unnest(lineage) as v(v);
    end if;
    if top > 2000000000 then  -- nobody counts so far, and applications must count on
        raise exception 'version % is out of range', top using errcode = 'numeric_value_out_of_range';
    end if;
end
$msrepl$;
alter function msrepl.merge_lineage_parts(int8[], int8) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_lineage_parts(int8[], int8) from public;
comment on function msrepl.merge_lineage_parts(int8[], int8) is 'A lineage as it is stored';

-- msrepl.merge_colv: column versions as other replicas read them.
-- called by: whatever reads msrepl.msmerge_metadata
-- tables:    none
-- holes:     owner
create or replace function msrepl.merge_colv(colv int8[], replica int8) returns int8[]
language sql immutable strict
set search_path = pg_catalog, pg_temp
as $msrepl$
    select array(
        select case when c.v between 1 and 2147483647 then replica << 31 | c.v else c.v end
        from unnest(colv) with ordinality as c(v, place) order by c.place)
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

-- msrepl.sysmergesubscriptions: this node and each neighbour that it merges with.
-- called by: twopc.drivers.merge, msrepl.merge_neighbour
-- tables:    itself
-- holes:     owner
--
-- sentgen is the last generation of ours that the neighbour has, recgen its last that we have; each with the GUID
-- by which a database that was restored is recognised. coming_gen is the neighbour's generation of which we have
-- at least a part. former are numbers that the neighbour had before it was restored. login is the role in whose name an agent
-- works here for that neighbour. known_from is where a comparison with the neighbour begins that was begun anew: what
-- its generations up to there have changed was here before. cleaned_to is the generation up to which a Publisher has forgotten what it knew.
-- status 0: the Publisher of a database that is being initialised from files; 3: that is being initialised anew, so that its tables
-- were there before. status 2: a subscription that was dropped, because it has had no session for twice the retention. A row with via is
-- no neighbour, but a server subscription below that republisher; with its priority its changes come from there. partition_id is that of a Subscriber, where the
-- publication is filtered. ranges_known: this node, which allots identity ranges, knows all that a Subscriber holds; not so after
-- it was restored.
create table if not exists msrepl.sysmergesubscriptions (
    subscriber_server text primary key,
    replnickname int8 not null unique,
    former int8[] not null default array[]::int8[],
    is_self boolean not null default false,
    is_publisher boolean not null default false,
    login text unique,
    subscriber_type smallint not null default 2 check (subscriber_type in (1, 2)),
    priority real not null default 0 check (priority between 0 and 100),
    status smallint not null default 1 check (status in (0, 1, 2, 3)),
    sentgen int8 not null default 0,
    sentguid uuid,
    recgen int8 not null default 0,
    recguid uuid,
    coming_gen int8,
    coming_guid uuid,
    known_from int8 not null default 0,
    via text,
    cleaned_to int8 not null default 0,
    partition_id integer,
    ranges_known boolean not null default true,
    subscribed_at timestamptz not null default clock_timestamp(),
    last_sync_date timestamptz
);
alter table msrepl.sysmergesubscriptions owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.sysmergesubscriptions from public;
comment on table msrepl.sysmergesubscriptions is 'This node and its neighbours, with what each has of the other';

-- msrepl.sysmergepartitioninfo: the articles of which not every Subscriber gets every row.
-- called by: twopc.publisher.merge.filters, msrepl.merge_map, msrepl.merge_articles
-- tables:    itself; msrepl.sysmergearticles
-- holes:     owner
--
-- subset_filterclause is the row filter as PostgreSQL prints it, NULL if rows belong to partitions by join filters alone.
-- use_partition_groups: a close works out what has changed; else everything, and if filters_on_time whether anything has
-- changed or not. partition_options: 0 rows may be moved out of a Subscriber's partition, 1 not, 2 and belong to one alone,
-- 3 which has one Subscriber.
create table if not exists msrepl.sysmergepartitioninfo (
    artid uuid primary key references msrepl.sysmergearticles on delete cascade,
    subset_filterclause text,
    use_partition_groups boolean not null,
    filters_on_time boolean not null,
    partition_options smallint not null default 0 check (partition_options between 0 and 3),
    allow_partition_realignment boolean not null default true
);
alter table msrepl.sysmergepartitioninfo owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.sysmergepartitioninfo from public;
comment on table msrepl.sysmergepartitioninfo is 'Articles of which not every Subscriber gets every row';

-- msrepl.sysmergesubsetfilters: join filters: an article's rows go where the rows of another go that they belong to.
-- called by: twopc.publisher.merge.filters
-- tables:    itself; msrepl.sysmergearticles
-- holes:     owner
--
-- art_nickname is the child's, join_nickname the parent's. join_unique_key: the condition is a foreign key of the child's.
create table if not exists msrepl.sysmergesubsetfilters (
    artid uuid not null references msrepl.sysmergearticles on delete cascade,
    art_nickname integer not null,
    join_articleid uuid not null references msrepl.sysmergearticles,
    join_nickname integer not null,
    join_filterclause text not null,
    join_unique_key boolean not null,
    primary key (artid, join_articleid)
);
alter table msrepl.sysmergesubsetfilters owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.sysmergesubsetfilters from public;
comment on table msrepl.sysmergesubsetfilters is 'Join filters between articles';

-- msrepl.msmerge_partition_groups: the partitions of this database's publication.
-- called by: msrepl.merge_partition, msmerge_filter_<artid>
-- tables:    itself
-- holes:     owner
--
-- Subscribers whose filters have the same values share a row. A value that no filter uses is NULL. Of the generation
-- maxgen_whenadded and before it holds all rows.
create table if not exists msrepl.msmerge_partition_groups (
    partition_id integer generated always as identity primary key,
    host_name_fn text,
    suser_sname_fn text,
    maxgen_whenadded int8,
    unique nulls not distinct (host_name_fn, suser_sname_fn)
);
alter table msrepl.msmerge_partition_groups owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_partition_groups from public;
comment on table msrepl.msmerge_partition_groups is 'Partitions: each distinct set of values of the publication''s filters';

-- msrepl.msmerge_current_partition_mappings: which rows of filtered articles belong to which partitions.
-- called by: msmerge_map_<artid>, msmerge_enumerate_<artid>, msmerge_filter_<artid>
-- tables:    itself
-- holes:     owner
--
-- As of the newest closed generation, and of all rows, not only of those that were changed: where a row was that is
-- gone is looked up here. generation is the one with which the row came into the partition.
create table if not exists msrepl.msmerge_current_partition_mappings (
    tablenick integer not null,
    rowguid uuid not null,
    partition_id integer not null references msrepl.msmerge_partition_groups on delete cascade,
    generation int8 not null,
    primary key (tablenick, rowguid, partition_id)
);
create index if not exists msmerge_current_partition_mappings_generation
    on msrepl.msmerge_current_partition_mappings (generation, partition_id, tablenick);
create index if not exists msmerge_current_partition_mappings_partition
    on msrepl.msmerge_current_partition_mappings (partition_id, tablenick);
alter table msrepl.msmerge_current_partition_mappings owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_current_partition_mappings from public;
comment on table msrepl.msmerge_current_partition_mappings is 'Which rows belong to which partitions';

-- msrepl.msmerge_past_partition_mappings: which rows belong to a partition no more.
-- called by: msmerge_map_<artid>, msmerge_enumerate_<artid>, msrepl.merge_touch_partition
-- tables:    itself
-- holes:     owner
--
-- generation is the one with which the row has left. reason: 1 deleted, 2 changed, 3 another row was changed, 4 a
-- Subscriber has sent it that it does not belong to, and is to hear so.
create table if not exists msrepl.msmerge_past_partition_mappings (
    tablenick integer not null,
    rowguid uuid not null,
    partition_id integer not null references msrepl.msmerge_partition_groups on delete cascade,
    generation int8 not null,
    reason smallint not null check (reason between 1 and 4),
    primary key (tablenick, rowguid, partition_id)
);
create index if not exists msmerge_past_partition_mappings_generation
    on msrepl.msmerge_past_partition_mappings (generation, partition_id, tablenick);
alter table msrepl.msmerge_past_partition_mappings owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_past_partition_mappings from public;
comment on table msrepl.msmerge_past_partition_mappings is 'Which rows have left which partitions';

-- msrepl.msmerge_generation_partition_mappings: which generations hold anything for which partitions.
-- called by: msrepl.merge_map_generation, msrepl.merge_touch_partition, msmerge_enumerate_<artid>
-- tables:    itself
-- holes:     owner
--
-- partition_id -1: changes of articles that are not filtered, which concern all.
create table if not exists msrepl.msmerge_generation_partition_mappings (
    generation int8 not null,
    partition_id integer not null,
    changecount integer not null,
    primary key (partition_id, generation)
);
alter table msrepl.msmerge_generation_partition_mappings owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_generation_partition_mappings from public;
comment on table msrepl.msmerge_generation_partition_mappings is 'Which generations hold anything for which partitions';

-- msrepl.host_name: in a filter, the host of the Subscriber whose partition it is.
-- called by: nobody: where it is written, the value of each partition is taken
-- tables:    none
-- holes:     owner
create or replace function msrepl.host_name() returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    raise exception 'msrepl.host_name() has a value in filters of merge articles alone'
        using errcode = 'object_not_in_prerequisite_state';
end
$msrepl$;
alter function msrepl.host_name() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.host_name() from public;
comment on function msrepl.host_name() is 'In a filter, the host of the Subscriber whose partition it is';

-- msrepl.suser_sname: in a filter, the login of the Subscriber whose partition it is.
-- called by: nobody: where it is written, the value of each partition is taken
-- tables:    none
-- holes:     owner
create or replace function msrepl.suser_sname() returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    raise exception 'msrepl.suser_sname() has a value in filters of merge articles alone'
        using errcode = 'object_not_in_prerequisite_state';
end
$msrepl$;
alter function msrepl.suser_sname() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.suser_sname() from public;
comment on function msrepl.suser_sname() is 'In a filter, the login of the Subscriber whose partition it is';

-- msrepl.merge_partition: the partition of these values; a new one is made, with no rows yet.
-- called by: twopc.drivers.merge.partitions
-- tables:    msrepl.msmerge_partition_groups
-- holes:     owner
create or replace function msrepl.merge_partition(host text, login text) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    result integer;
begin
    insert into msrepl.msmerge_partition_groups as p (host_name_fn, suser_sname_fn) values ($1, $2)
    on conflict (host_name_fn, suser_sname_fn) do nothing;
    select p.partition_id into result from msrepl.msmerge_partition_groups as p
    where p.host_name_fn is not distinct from $1 and p.suser_sname_fn is not distinct from $2;
    return result;
end
$msrepl$;
alter function msrepl.merge_partition(text, text) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_partition(text, text) from public;
comment on function msrepl.merge_partition(text, text) is 'The partition of these values';

-- msrepl.merge_map: works out which rows belong to which partitions, in the snapshot that a generation is.
-- called by: msrepl.merge_close; twopc.drivers.merge.partitions
-- tables:    msrepl.sysmergepartitioninfo, msrepl.sysmergearticles, msrepl.msmerge_metadata,
--            msrepl.msmerge_*_partition_mappings
-- holes:     owner
--
-- Of all partitions, or of one as a whole. Parents come before their children. Returns how many mappings have changed.
create or replace function msrepl.merge_map(generation int8, seen pg_snapshot, is_changed boolean, whole integer) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    each record;
    count bigint;
    total bigint := 0;
begin
    for each in
        select a.artid, a.nickname, i.use_partition_groups, i.filters_on_time
        from msrepl.sysmergepartitioninfo as i join msrepl.sysmergearticles as a on a.artid = i.artid
        order by a.nickname
    loop
        if whole is not null or is_changed or each.filters_on_time then
            execute format('select msrepl.%I($1, $2, $3, $4)', 'msmerge_map_' || replace(each.artid::text, '-', ''))
                into count using generation, seen, each.use_partition_groups and whole is null, whole;
            total := total + count;
            is_changed := is_changed or count > 0;  -- what belongs where a row of this one belongs comes later
        end if;
    end loop;
    return total;
end
$msrepl$;
alter function msrepl.merge_map(int8, pg_snapshot, boolean, integer) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_map(int8, pg_snapshot, boolean, integer) from public;
comment on function msrepl.merge_map(int8, pg_snapshot, boolean, integer) is 'Works out which rows belong to which partitions';

-- msrepl.merge_map_generation: notes for which partitions a generation holds anything.
-- called by: msrepl.merge_close
-- tables:    msrepl.msmerge_*_partition_mappings, msrepl.msmerge_metadata
-- holes:     owner
--
-- A row that was changed and has come into a partition, or has left it, counts twice.
create or replace function msrepl.merge_map_generation(generation int8, seen pg_snapshot) returns void
language sql
set search_path = pg_catalog, pg_temp set plan_cache_mode = force_custom_plan
as $msrepl$
    with changed as materialized (
        select m.tablenick, m.rowguid from msrepl.msmerge_metadata as m
        where m.xid >= pg_snapshot_xmin($2) and not pg_visible_in_snapshot(m.xid, $2)
    ), concerned as (
        select c.tablenick, c.rowguid, c.partition_id
        from changed as m join msrepl.msmerge_current_partition_mappings as c
            on c.tablenick = m.tablenick and c.rowguid = m.rowguid
      union all
        select c.tablenick, c.rowguid, c.partition_id
        from msrepl.msmerge_current_partition_mappings as c where c.generation = $1
      union all
        select p.tablenick, p.rowguid, p.partition_id
        from msrepl.msmerge_past_partition_mappings as p where p.generation = $1
      union all
        select m.tablenick, m.rowguid, -1
        from changed as m
        where m.tablenick not in (
            select a.nickname from msrepl.sysmergearticles as a join msrepl.sysmergepartitioninfo as i on i.artid = a.artid)
    )
    insert into msrepl.msmerge_generation_partition_mappings as m (generation, partition_id, changecount)
    select $1, c.partition_id, count(*) from concerned as c group by c.partition_id
    on conflict (partition_id, generation) do update set changecount = excluded.changecount
$msrepl$;
alter function msrepl.merge_map_generation(int8, pg_snapshot) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_map_generation(int8, pg_snapshot) from public;
comment on function msrepl.merge_map_generation(int8, pg_snapshot) is 'Notes for which partitions a generation holds anything';

-- msrepl.merge_close: closes the open generation, if anything is in it (sp_MSmakegeneration).
-- called by: merge agents, as the first query of a REPEATABLE READ transaction that has locked msmerge_genhistory
-- tables:    msrepl.msmerge_genhistory, msrepl.msmerge_metadata, msrepl.sysmergepartitioninfo,
--            msrepl.msmerge_*_partition_mappings
-- holes:     owner
--
-- The lock comes first, and by LOCK TABLE, which takes no snapshot: of two agents the second then sees the
-- generation of the first. Without it the second fails with a duplicate generation; only agents wait for it.
-- What is new is looked for in the order of transaction ids, which makes the planner take their index, though it believes
-- that a third of all rows is. Returns the newest closed generation, which is the caller's snapshot, or holds all that this would hold.
create or replace function msrepl.merge_close(out generation int8, out guid uuid)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    last msrepl.msmerge_genhistory;
    seen pg_snapshot;
    is_changed boolean;
    moves bigint;
    is_filtered constant boolean := exists (select from msrepl.sysmergepartitioninfo);
begin
    select g.* into last from msrepl.msmerge_genhistory as g order by g.generation desc limit 1;
    seen := last.snap;
    is_changed := coalesce((
        select true from msrepl.msmerge_metadata as m
        where m.xid >= pg_snapshot_xmin(seen) and not pg_visible_in_snapshot(m.xid, seen)
        order by m.xid desc limit 1), false);
    if is_filtered then
        moves := msrepl.merge_map(last.generation + 1, seen, is_changed, null);
        is_changed := is_changed or moves > 0
            or exists (select from msrepl.msmerge_generation_partition_mappings as p where p.generation > last.generation);
    end if;
    if is_changed then
        insert into msrepl.msmerge_genhistory as g (generation, snap)
        values (last.generation + 1, pg_current_snapshot())
        returning g.* into last;
        if is_filtered then
            perform msrepl.merge_map_generation(last.generation, seen);
        end if;
    end if;
    generation := last.generation;
    guid := last.guidsrc;
end
$msrepl$;
alter function msrepl.merge_close() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_close() from public;
comment on function msrepl.merge_close() is 'Closes a generation, and tells the newest';

-- msrepl.msmerge_conflicts_info: conflicts, and changes that could not be applied here.
-- called by: msmerge_take_<artid>, msrepl.merge_apply
-- tables:    itself
-- holes:     owner
--
-- is_pending says of a change that failed that it is sent again in each session. recipient is a Subscriber where it is to be on record, too, and is not yet. origin_datasource_id is the replica of the node whose change has lost. reason_code is the type of a conflict, or the SQLSTATE of a change that failed. The row of the loser is in the
-- article's msmerge_conflict_<publication>_<article>, unless it was deleted; missing_columns are the numbers of columns that
-- were added since, of which it has no value.
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
    missing_columns integer[] not null default '{}',
    msrepl_create_time timestamptz not null default clock_timestamp()
);
create index if not exists msmerge_conflicts_info_row on msrepl.msmerge_conflicts_info (tablenick, rowguid);
create index if not exists msmerge_conflicts_info_pending on msrepl.msmerge_conflicts_info (origin_datasource_id) where is_pending;
alter table msrepl.msmerge_conflicts_info owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_conflicts_info from public;
comment on table msrepl.msmerge_conflicts_info is 'Conflicts and failed changes: whose change lost, and why';

-- msrepl.merge_others: replicas of whose changes a Subscriber knows from this node alone.
-- called by: msmerge_take_<artid>, msmerge_hold_<artid>
-- tables:    msrepl.sysmergesubscriptions
-- holes:     owner
--
-- NULL for the Publisher, and until a first session is whole, also the first after an end was restored from a
-- backup: what came from here once may be missing here then.
create or replace function msrepl.merge_others(peer msrepl.sysmergesubscriptions) returns int8[]
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select array_agg(n.v)
    from msrepl.sysmergesubscriptions as s, unnest(s.former || s.replnickname) as n(v)
    where not $1.is_publisher and $1.recgen > 0
        and s.subscriber_server <> $1.subscriber_server and s.via is distinct from $1.subscriber_server
$msrepl$;
alter function msrepl.merge_others(msrepl.sysmergesubscriptions) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_others(msrepl.sysmergesubscriptions) from public;
comment on function msrepl.merge_others(msrepl.sysmergesubscriptions) is 'Replicas of whose changes a Subscriber knows from this node alone';

-- msrepl.merge_judgement: an incoming row, what is held of it, and what becomes of it.
-- called by: msmerge_take_<artid>
-- tables:    none
-- holes:     owner
do $msrepl$
begin
    if to_regtype('msrepl.merge_judgement') is null then
        create type msrepl.merge_judgement as (
            rowguid uuid, "row" text, held_row text, held_writer int8,
            verdict text, conflict smallint, taken boolean[], gone boolean, lineage int8[], colv int8[],
            writer int8, conflict_id uuid
        );
    end if;
end
$msrepl$;
alter type msrepl.merge_judgement owner to "msrepl_owner_0123456789ab";
revoke all on type msrepl.merge_judgement from public;
comment on type msrepl.merge_judgement is 'What becomes of an incoming row';

-- msrepl.merge_covers: whether a lineage stands on every version that another stands on.
-- called by: msrepl.merge_decide
-- tables:    none
-- holes:     owner
create or replace function msrepl.merge_covers(one int8[], other int8[]) returns boolean
language sql immutable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select not exists (
        select from unnest(other) as o(v)
        where not exists (select from unnest(one) as t(v) where t.v >> 31 = o.v >> 31 and t.v >= o.v))
$msrepl$;
alter function msrepl.merge_covers(int8[], int8[]) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_covers(int8[], int8[]) from public;
comment on function msrepl.merge_covers(int8[], int8[]) is 'Whether one lineage knows all that another knows';

-- msrepl.merge_unforgotten: column versions of an incoming row without those that were known here and are forgotten.
-- called by: msmerge_take_<artid>, msmerge_hold_<artid>
-- tables:    none
-- holes:     owner
--
-- The twin of twopc.merge.decision.without_forgotten: read that first. NULL others: nothing is left out.
create or replace function msrepl.merge_unforgotten(colv int8[], lineage int8[], held_lineage int8[], others int8[], lowest integer) returns int8[]
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if colv is null or others is null or lowest = 0 or held_lineage is null or msrepl.merge_covers(lineage, held_lineage) then
        return colv;
    end if;
    return array(
        select case when c.v >> 31 = any (others) and c.v & 2147483647 <= lowest then 0 else c.v end
        from unnest(colv) with ordinality as c(v, place) order by c.place);
end
$msrepl$;
alter function msrepl.merge_unforgotten(int8[], int8[], int8[], int8[], integer) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_unforgotten(int8[], int8[], int8[], int8[], integer) from public;
comment on function msrepl.merge_unforgotten(int8[], int8[], int8[], int8[], integer) is 'Column versions without those that are forgotten here';

-- msrepl.merge_precedes: whether a lineage knows all that another knows, and more.
-- called by: msmerge_take_<artid>, for every row
-- tables:    none
-- holes:     owner
create or replace function msrepl.merge_precedes(one int8[], other int8[]) returns boolean
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    place integer := 1;
begin
    if one = other then
        return false;
    end if;
    for i in 1 .. coalesce(cardinality(one), 0) loop
        while other[place] >> 31 < one[i] >> 31 loop
            place := place + 1;
        end loop;
        if other[place] >> 31 = one[i] >> 31 and other[place] >= one[i] then
            continue;
        end if;
        return false;
    end loop;
    return true;
end
$msrepl$;
alter function msrepl.merge_precedes(int8[], int8[]) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_precedes(int8[], int8[]) from public;
comment on function msrepl.merge_precedes(int8[], int8[]) is 'Whether the second lineage knows all that the first knows, and more';

-- msrepl.merge_decide: what becomes of an incoming row (sp_MSgetmetadata).
-- called by: msmerge_take_<artid>
-- tables:    none
-- holes:     owner
--
-- The twin of twopc.merge.decision.decide, with which it is compared on drawn pairs: read that first. Lineages are
-- sorted; which covers which is found by walking along both, since a query for each row costs five times as much.
create or replace function msrepl.merge_decide(
    held_gone boolean, held_lineage int8[], held_colv int8[], held_priority real,
    inout gone boolean, inout lineage int8[], inout colv int8[], priority real,
    replica int8, column_tracking boolean, resolves boolean, is_same boolean, choice text, is_present boolean,
    is_confirmed boolean, lowest integer,
    out verdict text, out conflict smallint, out taken boolean[]
)
language plpgsql immutable
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_variable
declare
    incoming_gone constant boolean := gone;
    incoming_colv constant int8[] := colv;
    places constant integer := greatest(cardinality(held_colv), cardinality(colv));
    of_held boolean[];
    of_incoming boolean[];
    together int8[];
    stamp int8;
    here integer := 1;
    there integer := 1;
    is_ahead boolean := false;
    is_behind boolean := false;
    is_ambiguous boolean;
    is_apart boolean;
    is_refused boolean := false;
begin
    if held_gone is null and choice is distinct from 'held' then
        verdict := 'apply';
        return;
    end if;
    lowest := case when held_gone is null then lowest else 0 end;
    held_gone := coalesce(held_gone, not is_present);
    while here <= cardinality(held_lineage) or there <= cardinality(lineage) loop
        if there > cardinality(lineage) or held_lineage[here] >> 31 < lineage[there] >> 31 then
            is_ahead := true;
            here := here + 1;
        elsif here > cardinality(held_lineage) or held_lineage[here] >> 31 > lineage[there] >> 31 then
            is_behind := true;
            there := there + 1;
        else
            is_ahead := is_ahead or held_lineage[here] > lineage[there];
            is_behind := is_behind or held_lineage[here] < lineage[there];
            here := here + 1;
            there := there + 1;
        end if;
    end loop;
    is_ambiguous := not is_behind and not is_ahead and not is_same;
    if not is_behind and not is_ambiguous then
        verdict := 'skip';
    elsif not is_ahead and not (is_ambiguous and resolves) or is_confirmed and not resolves then
        is_refused := choice is not distinct from 'held';
        if not is_refused then
            verdict := 'apply';
            return;
        end if;
    elsif not resolves then
        verdict := 'defer';
    end if;
    if verdict is not null then
        gone := held_gone;
        lineage := held_lineage;
        colv := held_colv;
        return;
    end if;
    together := array(select max(v.v) from unnest(lineage || held_lineage) as v(v) group by v.v >> 31);
    stamp := replica << 31 | (select greatest(max(v.v & 2147483647), lowest) + 1 from unnest(together) as v(v));
    of_held := array(
        select coalesce(h.v, 0) <> 0 and not msrepl.merge_covers(lineage, array[h.v])
        from generate_series(1, places) as p(place) left join unnest(held_colv) with ordinality as h(v, place) using (place)
        order by p.place);
    of_incoming := array(
        select coalesce(i.v, 0) <> 0 and not msrepl.merge_covers(held_lineage, array[i.v])
        from generate_series(1, places) as p(place) left join unnest(colv) with ordinality as i(v, place) using (place)
        order by p.place);
    lineage := array(select v.v from unnest(together) as v(v) where v.v >> 31 <> replica union all select stamp order by 1);
    is_apart := not incoming_gone and not held_gone and column_tracking and not is_ambiguous
        and not exists (select from unnest(of_held, of_incoming) as c(of_held, of_incoming) where c.of_held and c.of_incoming);
    if is_apart and choice is distinct from 'held' then
        verdict := 'merge';
        taken := of_incoming;
        colv := array(
            select case when t.yes then coalesce(incoming_colv[t.place], 0) else coalesce(held_colv[t.place], 0) end
            from unnest(of_incoming) with ordinality as t(yes, place) order by t.place);
    elsif incoming_gone and held_gone then
        verdict := 'keep';
        colv := held_colv;
    elsif choice is null and priority > held_priority or choice = 'incoming' then
        verdict := 'replace';
        conflict := case when incoming_gone then 3 when held_gone then 4 when column_tracking then 2 else 1 end;
        colv := case when colv is not null then array(
            select case when held_gone or m.yes or is_ambiguous then stamp else coalesce(incoming_colv[m.place], 0) end
            from unnest(of_held) with ordinality as m(yes, place) order by m.place) end;
    else
        verdict := 'keep';
        if not (is_refused or is_apart) then
            conflict := case when held_gone then 3 when incoming_gone then 4 when column_tracking then 2 else 1 end;
        end if;
        gone := held_gone;
        colv := case when held_colv is not null or is_refused and incoming_colv is not null then array(
            select case when incoming_gone or t.yes or is_ambiguous then stamp else coalesce(held_colv[t.place], 0) end
            from unnest(of_incoming) with ordinality as t(yes, place) order by t.place) end;
    end if;
end
$msrepl$;
alter function msrepl.merge_decide(boolean, int8[], int8[], real, boolean, int8[], int8[], real, int8, boolean, boolean, boolean, text, boolean, boolean, integer) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_decide(boolean, int8[], int8[], real, boolean, int8[], int8[], real, int8, boolean, boolean, boolean, text, boolean, boolean, integer) from public;
comment on function msrepl.merge_decide(boolean, int8[], int8[], real, boolean, int8[], int8[], real, int8, boolean, boolean, boolean, text, boolean, boolean, integer)
    is 'What becomes of an incoming row: apply, skip, merge, keep, replace or defer';

-- msrepl.merge_neighbour: the neighbour for whom this session works.
-- called by: every function that agents call
-- tables:    msrepl.sysmergesubscriptions
-- holes:     owner
--
-- By the role that logged in, never by an argument.
create or replace function msrepl.merge_neighbour() returns msrepl.sysmergesubscriptions
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    found_one msrepl.sysmergesubscriptions;
begin
    select s.* into found_one from msrepl.sysmergesubscriptions as s where s.login = session_user and s.status = 1;
    if not found then
        raise exception 'role % works for no subscription here', session_user
            using errcode = 'object_not_in_prerequisite_state', hint = 'Subscribe again.';
    end if;
    return found_one;
end
$msrepl$;
alter function msrepl.merge_neighbour() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_neighbour() from public;
comment on function msrepl.merge_neighbour() is 'The neighbour for whom the session works';

-- msrepl.sysmergeschemachange: the schema changes of the publication, in the order in which every node makes them.
-- called by: twopc.drivers.merge.schema_changes, msrepl.merge_schema_changes, msrepl.merge_check_schema
-- tables:    itself
-- holes:     owner
--
-- The last row says how far this node has come: it is written in the commit that alters the table. column_number is the
-- place of the column's versions in colv, which no other column ever gets. column_default is the text of a constant.
create table if not exists msrepl.sysmergeschemachange (
    schemaversion integer primary key check (schemaversion > 0),
    schemaguid uuid not null unique,
    artid uuid not null,
    schematype text not null check (schematype in ('add', 'drop', 'widen')),
    column_name text not null,
    column_number integer not null check (column_number > 0),
    column_type text,
    column_default text,
    changed_at timestamptz not null default clock_timestamp()
);
alter table msrepl.sysmergeschemachange owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.sysmergeschemachange from public;
comment on table msrepl.sysmergeschemachange is 'Schema changes, in the order in which every node makes them';

-- msrepl.merge_schema_changes: the schema changes that this node has made, in order.
-- called by: merge agents, at the beginning of a session
-- tables:    msrepl.sysmergeschemachange
-- holes:     owner
create or replace function msrepl.merge_schema_changes()
returns table (
    version integer, guid uuid, artid uuid, kind text, column_name text, number integer, type text, column_default text
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    perform msrepl.merge_neighbour();
    return query
    select s.schemaversion, s.schemaguid, s.artid, s.schematype, s.column_name, s.column_number, s.column_type, s.column_default
    from msrepl.sysmergeschemachange as s order by s.schemaversion;
end
$msrepl$;
alter function msrepl.merge_schema_changes() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_schema_changes() from public;
comment on function msrepl.merge_schema_changes() is 'The schema changes that this node has made';

-- msrepl.merge_check_schema: refuses to go on with a session after the schema has changed, and has changes wait until the transaction ends.
-- called by: merge agents, at the beginning of each transaction that reads or writes rows
-- tables:    msrepl.sysmergeschemachange
-- holes:     owner
--
-- Rows in another shape would count as rows that cannot be written. By LOCK TABLE, which takes no snapshot: what is
-- read afterwards is what the change has left.
create or replace function msrepl.merge_check_schema(version integer) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    held integer;
begin
    lock table msrepl.sysmergeschemachange in access share mode;
    select coalesce(max(s.schemaversion), 0) into held from msrepl.sysmergeschemachange as s;
    if held <> version then
        raise exception 'schema change % was made during the session', held
            using errcode = 'object_not_in_prerequisite_state', hint = 'The next session brings it to the Subscriber.';
    end if;
end
$msrepl$;
alter function msrepl.merge_check_schema(integer) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_check_schema(integer) from public;
comment on function msrepl.merge_check_schema(integer) is 'Refuses to go on after the schema has changed';

-- msrepl.merge_conflict_id: by which a conflict is known: the change that has lost.
-- called by: msmerge_take_<artid>
-- tables:    none
-- holes:     owner
--
-- A conflict that is met again, after a backup was restored, is recorded once.
create or replace function msrepl.merge_conflict_id(tablenick integer, guid uuid, lineage int8[], "row" text) returns uuid
language sql immutable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select md5(concat_ws(' ', tablenick, guid, lineage::text, "row"))::uuid
$msrepl$;
alter function msrepl.merge_conflict_id(integer, uuid, int8[], text) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_conflict_id(integer, uuid, int8[], text) from public;
comment on function msrepl.merge_conflict_id(integer, uuid, int8[], text) is 'By which a conflict is known';

-- msrepl.merge_record_conflicts: records who has lost each conflict of a slice, and against whom.
-- called by: msmerge_take_<artid>
-- tables:    msrepl.msmerge_conflicts_info, msrepl.sysmergesubscriptions, msrepl.sysmergearticles
-- holes:     owner
create or replace function msrepl.merge_record_conflicts(tablenick integer, judgements msrepl.merge_judgement[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
begin
    insert into msrepl.msmerge_conflicts_info
        (conflict_id, tablenick, rowguid, origin_datasource, origin_datasource_id, conflict_type, reason_code, reason_text,
         winner, recipient)
    select j.conflict_id, $1, j.rowguid, case j.verdict when 'keep' then peer.subscriber_server else h.name end,
           case j.verdict when 'keep' then peer.replnickname else h.replica end, j.conflict, j.conflict::text,
           format('%s of %s lost against %s', case when j.conflict < 3 then 'the update' else 'the change' end,
                  case j.verdict when 'keep' then peer.subscriber_server else h.name end,
                  case j.verdict when 'keep' then h.name else peer.subscriber_server end),
           case j.verdict when 'keep' then h.name else peer.subscriber_server end,
           (select peer.subscriber_server from msrepl.sysmergearticles as a
            where a.nickname = $1 and a.conflict_logging <> 'publisher')
    from unnest($2) as j
    cross join lateral (
        select s.subscriber_server, s.replnickname from msrepl.sysmergesubscriptions as s
        where s.is_self or j.held_writer = any (s.former || s.replnickname)
        order by s.is_self limit 1
    ) as h(name, replica)
    where j.conflict is not null
    on conflict (conflict_id) do update
    set conflict_type = excluded.conflict_type, missing_columns = '{}', reason_code = excluded.reason_code, reason_text = excluded.reason_text,
        winner = excluded.winner, recipient = excluded.recipient, msrepl_create_time = excluded.msrepl_create_time;
end
$msrepl$;
alter function msrepl.merge_record_conflicts(integer, msrepl.merge_judgement[]) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_record_conflicts(integer, msrepl.merge_judgement[]) from public;
comment on function msrepl.merge_record_conflicts(integer, msrepl.merge_judgement[]) is 'Records the conflicts of a slice';

-- msrepl.merge_clean_conflicts: forgets conflicts that are older than their article keeps them.
-- called by: msrepl.merge_end_session, msrepl.merge_settle; administrators
-- tables:    msrepl.msmerge_conflicts_info, msrepl.sysmergearticles, the articles' tables of conflicts
-- holes:     owner
--
-- Returns how many. conflict_retention is in days; 0 keeps conflicts for ever.
create or replace function msrepl.merge_clean_conflicts() returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    article record;
    stale uuid[];
    forgotten bigint := 0;
begin
    for article in select a.nickname, a.conflict_table, a.conflict_retention from msrepl.sysmergearticles as a
                   where a.conflict_retention > 0
    loop
        with gone as (
            delete from msrepl.msmerge_conflicts_info as c
            where c.tablenick = article.nickname
              and c.msrepl_create_time < clock_timestamp() - make_interval(days => article.conflict_retention)
            returning c.conflict_id)
        select array_agg(g.conflict_id) into stale from gone as g;
        continue when stale is null;
        forgotten := forgotten + cardinality(stale);
        execute format('delete from msrepl.%I where msrepl_conflict_id = any ($1)', article.conflict_table) using stale;
    end loop;
    return forgotten;
end
$msrepl$;
alter function msrepl.merge_clean_conflicts() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_clean_conflicts() from public;
comment on function msrepl.merge_clean_conflicts() is 'Forgets conflicts that are older than their article keeps them';

-- msrepl.merge_outgoing_conflicts: conflicts that are to be on record at the session's Subscriber, and are not yet.
-- called by: merge agents, at a Publisher
-- tables:    msrepl.msmerge_conflicts_info, msrepl.sysmergearticles, the articles' tables of conflicts
-- holes:     owner
create or replace function msrepl.merge_outgoing_conflicts()
returns table (
    conflict_id uuid, artid uuid, rowguid uuid, origin text, origin_id int8, conflict_type smallint, code text, reason text,
    winner text, at timestamptz, "row" text
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    article msrepl.sysmergearticles;
begin
    for article in select a.* from msrepl.sysmergearticles as a where a.conflict_logging <> 'publisher' order by a.nickname
    loop
        return query execute format(
            'select c.conflict_id, $1, c.rowguid, c.origin_datasource, c.origin_datasource_id, c.conflict_type,'
            ' c.reason_code, c.reason_text, c.winner, c.msrepl_create_time, l.v'
            ' from msrepl.msmerge_conflicts_info as c'
            ' left join (select t.msrepl_conflict_id as id, row(%s)::text as v from msrepl.%I as t) as l on l.id = c.conflict_id'
            ' where c.tablenick = $2 and c.recipient = $3',
            (select string_agg(format('t.%I', n.name), ', ' order by n.place)
             from unnest(article.columns) with ordinality as n(name, place)),
            article.conflict_table)
        using article.artid, article.nickname, peer.subscriber_server;
    end loop;
end
$msrepl$;
alter function msrepl.merge_outgoing_conflicts() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_outgoing_conflicts() from public;
comment on function msrepl.merge_outgoing_conflicts() is 'Conflicts that are to be on record at a Subscriber';

-- msrepl.merge_log_conflicts: puts conflicts on record that the Publisher has resolved.
-- called by: merge agents, at a Subscriber
-- tables:    msrepl.msmerge_conflicts_info, msrepl.sysmergearticles; see msmerge_log_<artid>
-- holes:     owner
--
-- A conflict that comes twice, because a session was cut off, is on record once.
create or replace function msrepl.merge_log_conflicts(
    ids uuid[], artids uuid[], guids uuid[], origins text[], origin_ids int8[], types smallint[], codes text[],
    reasons text[], winners text[], times timestamptz[], rows text[]
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    place integer;
begin
    if not peer.is_publisher then
        raise exception '% is no Publisher of this node', peer.subscriber_server using errcode = 'insufficient_privilege';
    end if;
    insert into msrepl.msmerge_conflicts_info as c
        (conflict_id, tablenick, rowguid, origin_datasource, origin_datasource_id, conflict_type, reason_code, reason_text,
         winner, msrepl_create_time)
    select i.id, a.nickname, i.guid, i.origin, i.origin_id, i.kind, i.code, i.reason, i.winner, i.at
    from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) as i(id, artid, guid, origin, origin_id, kind, code, reason, winner, at)
    join msrepl.sysmergearticles as a on a.artid = i.artid
    on conflict (conflict_id) do update
    set conflict_type = excluded.conflict_type, missing_columns = '{}', reason_code = excluded.reason_code, reason_text = excluded.reason_text,
        winner = excluded.winner, msrepl_create_time = excluded.msrepl_create_time;
    for place in select i.place from unnest($11) with ordinality as i("row", place) where i."row" is not null loop
        execute format('select msrepl.%I($1, $2, $3)', 'msmerge_log_' || replace(artids[place]::text, '-', ''))
            using ids[place], guids[place], rows[place];
    end loop;
end
$msrepl$;
alter function msrepl.merge_log_conflicts(uuid[], uuid[], uuid[], text[], int8[], smallint[], text[], text[], text[], timestamptz[], text[]) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_log_conflicts(uuid[], uuid[], uuid[], text[], int8[], smallint[], text[], text[], text[], timestamptz[], text[]) from public;
comment on function msrepl.merge_log_conflicts(uuid[], uuid[], uuid[], text[], int8[], smallint[], text[], text[], text[], timestamptz[], text[])
    is 'Puts conflicts on record that the Publisher has resolved';

-- msrepl.merge_release_conflicts: notes that conflicts are on record at the session's Subscriber.
-- called by: merge agents, at a Publisher
-- tables:    msrepl.msmerge_conflicts_info, msrepl.sysmergearticles, the articles' tables of conflicts
-- holes:     owner
--
-- Those of articles whose conflicts are logged at Subscribers alone are taken off the records here.
create or replace function msrepl.merge_release_conflicts(ids uuid[]) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    article msrepl.sysmergearticles;
    gone uuid[];
begin
    for article in select a.* from msrepl.sysmergearticles as a where a.conflict_logging = 'subscriber' loop
        with released as (
            delete from msrepl.msmerge_conflicts_info as c
            where c.conflict_id = any (ids) and c.recipient = peer.subscriber_server and c.tablenick = article.nickname
            returning c.conflict_id)
        select array_agg(r.conflict_id) into gone from released as r;
        continue when gone is null;
        execute format('delete from msrepl.%I where msrepl_conflict_id = any ($1)', article.conflict_table) using gone;
    end loop;
    update msrepl.msmerge_conflicts_info as c set recipient = null
    where c.conflict_id = any (ids) and c.recipient = peer.subscriber_server;
end
$msrepl$;
alter function msrepl.merge_release_conflicts(uuid[]) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_release_conflicts(uuid[]) from public;
comment on function msrepl.merge_release_conflicts(uuid[]) is 'Notes that conflicts are on record at a Subscriber';

-- msrepl.merge_is_expired: whether a Subscriber has had no session for too long, and misses something.
-- called by: msrepl.merge_hello, msrepl.merge_clean_up
-- tables:    msrepl.sysmergepublications, msrepl.msmerge_genhistory, msrepl.msmerge_metadata, msrepl.msmerge_replica
-- holes:     owner
create or replace function msrepl.merge_is_expired(peer msrepl.sysmergesubscriptions) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select not peer.is_publisher
        and clock_timestamp() - coalesce(peer.last_sync_date, peer.subscribed_at) > make_interval(days => p.retention)
        and (peer.sentgen < r.cleaned or exists (
            select from msrepl.msmerge_genhistory as g
            join msrepl.msmerge_metadata as m on m.xid >= pg_snapshot_xmin(g.snap) and not pg_visible_in_snapshot(m.xid, g.snap)
            where g.generation = peer.sentgen))
    from msrepl.msmerge_replica as r,
         (select max(p.retention) as retention from msrepl.sysmergepublications as p having min(p.retention) > 0) as p
$msrepl$;
alter function msrepl.merge_is_expired(msrepl.sysmergesubscriptions) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_is_expired(msrepl.sysmergesubscriptions) from public;
comment on function msrepl.merge_is_expired(msrepl.sysmergesubscriptions) is 'Whether a subscription has expired';

-- msrepl.merge_servers: server subscriptions at this node and below it, each with its numbers and its priority.
-- called by: msrepl.merge_hello
-- tables:    msrepl.sysmergesubscriptions
-- holes:     owner
--
-- via NULL: all of them, as this node's Publisher is told; else those that a republisher has told of.
create or replace function msrepl.merge_servers(via text) returns jsonb
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select coalesce(jsonb_agg(jsonb_build_object(
        'name', s.subscriber_server, 'replicas', to_jsonb(s.former || s.replnickname), 'priority', s.priority)
        order by s.subscriber_server collate "C"), '[]')
    from msrepl.sysmergesubscriptions as s
    where case when $1 is null then s.subscriber_type = 1 and s.status = 1 and not s.is_self and not s.is_publisher
               else s.via = $1 end
$msrepl$;
alter function msrepl.merge_servers(text) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_servers(text) from public;
comment on function msrepl.merge_servers(text) is 'Server subscriptions at this node and below it';

-- msrepl.merge_introduce: enters the server subscriptions below a republisher, so that their changes keep their priority.
-- called by: merge agents, if a republisher names others than before
-- tables:    msrepl.sysmergesubscriptions
-- holes:     owner
--
-- None is believed to have a higher priority than the republisher itself, or the number or name of another node.
create or replace function msrepl.merge_introduce(servers jsonb) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    server record;
begin
    if peer.is_publisher or peer.subscriber_type <> 1 then
        raise exception '% has no server subscription here', peer.subscriber_server using errcode = 'insufficient_privilege';
    end if;
    delete from msrepl.sysmergesubscriptions as s where s.via = peer.subscriber_server;
    for server in select r.name, r.replicas, r.priority from jsonb_to_recordset($1) as r(name text, replicas int8[], priority real) loop
        insert into msrepl.sysmergesubscriptions (subscriber_server, replnickname, former, subscriber_type, priority, via)
        select server.name, server.replicas[cardinality(server.replicas)],
               server.replicas[:cardinality(server.replicas) - 1], 1, least(server.priority, peer.priority), peer.subscriber_server
        where not exists (
            select from msrepl.sysmergesubscriptions as s
            where s.subscriber_server = server.name or s.former || s.replnickname && server.replicas);
    end loop;
end
$msrepl$;
alter function msrepl.merge_introduce(jsonb) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_introduce(jsonb) from public;
comment on function msrepl.merge_introduce(jsonb) is 'Enters the server subscriptions below a republisher';

-- msrepl.merge_priority: the priority of a change that a neighbour has sent.
-- called by: msmerge_take_<artid>, msmerge_hold_<artid>
-- tables:    msrepl.sysmergesubscriptions
-- holes:     owner
--
-- That of the server subscription that wrote it, below a republisher; else the neighbour's own, and 0 of a client.
create or replace function msrepl.merge_priority(peer msrepl.sysmergesubscriptions, writer int8) returns real
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select coalesce(
        (select s.priority from msrepl.sysmergesubscriptions as s
         where s.via = peer.subscriber_server and writer = any (s.former || s.replnickname)),
        case when peer.subscriber_type = 1 then peer.priority else 0 end)
$msrepl$;
alter function msrepl.merge_priority(msrepl.sysmergesubscriptions, int8) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_priority(msrepl.sysmergesubscriptions, int8) from public;
comment on function msrepl.merge_priority(msrepl.sysmergesubscriptions, int8) is 'The priority of a change that a neighbour has sent';

-- msrepl.merge_hello: how far this node and the neighbour of the session are with each other.
-- called by: merge agents, at the beginning of a session
-- tables:    msrepl.sysmergeschemachange, msrepl.sysmergesubscriptions, msrepl.msmerge_replica, catalogs; see msrepl.merge_is_expired, msrepl.merge_faults
-- holes:     owner
--
-- Refused if a merged table is not what it was.
create or replace function msrepl.merge_hello(
    out replica int8, out former int8[], out neighbour int8, out neighbour_former int8[], out sentgen int8, out recgen int8, out recguid uuid, out coming_gen int8,
    out coming_guid uuid, out known_from int8, out cleaned int8, out is_expired boolean, out servers jsonb, out behind jsonb,
    out schemaversion integer, out schemaguid uuid
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    me msrepl.msmerge_replica;
    fault record;
begin
    select r.* into me from msrepl.msmerge_replica as r;
    if me.system_identifier <> (select s.system_identifier from pg_control_system() as s)
        or me.database <> (select d.oid from pg_database as d where d.datname = current_database())
    then
        raise exception 'database % is a copy of one that merges: its transaction ids are others', current_database()
            using errcode = 'object_not_in_prerequisite_state', hint = 'Uninstall merge replication here, and subscribe anew.';
    end if;
    select f.* into fault from msrepl.merge_faults() as f limit 1;
    if found then
        raise exception 'table % %', fault.name, fault.what
            using errcode = 'object_not_in_prerequisite_state', hint = fault.remedy;
    end if;
    replica := me.replica;
    former := me.former;
    neighbour := peer.replnickname;
    neighbour_former := peer.former;
    sentgen := peer.sentgen;
    recgen := peer.recgen;
    recguid := peer.recguid;
    coming_gen := peer.coming_gen;
    coming_guid := peer.coming_guid;
    known_from := peer.known_from;
    cleaned := me.cleaned;
    servers := msrepl.merge_servers(null);
    behind := msrepl.merge_servers(peer.subscriber_server);
    select c.schemaversion, c.schemaguid into schemaversion, schemaguid
    from msrepl.sysmergeschemachange as c order by c.schemaversion desc limit 1;
    is_expired := coalesce(msrepl.merge_is_expired(peer), false);
end
$msrepl$;
alter function msrepl.merge_hello() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_hello() from public;
comment on function msrepl.merge_hello() is 'How far this node and a neighbour are with each other';

-- msrepl.merge_articles: the articles of this database, what travels of each, and how its conflicts are dealt with.
-- called by: merge agents, at the beginning of a session
-- tables:    msrepl.sysmergearticles, catalogs
-- holes:     owner
--
-- types are those of the columns, of domains what they are made of; parents are the articles that it refers to.
create or replace function msrepl.merge_articles()
returns table (
    artid uuid, name text, parents uuid[], columns text[], types oid[], column_tracking boolean,
    article_resolver text, compensate_for_errors boolean, upload_options text, delete_tracking boolean,
    conflict_logging text, is_filtered boolean, has_ranges boolean, numbers integer[]
)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    select a.artid, case a.source_schema when 'public' then '' else a.source_schema || '.' end || a.source_object, array(
        select distinct p.artid from pg_constraint as k
        join msrepl.sysmergearticles as p on p.objid = k.confrelid and p.objid <> k.conrelid
        where k.conrelid = a.objid and k.contype = 'f' order by p.artid),
        a.columns, array(
        select coalesce(nullif(t.typbasetype, 0), t.oid, 0) from unnest(a.columns) with ordinality as c(name, place)
        left join pg_attribute as b on b.attrelid = a.objid and b.attname = c.name and not b.attisdropped
        left join pg_type as t on t.oid = b.atttypid order by c.place),
        a.column_tracking, a.article_resolver, a.compensate_for_errors, a.upload_options, a.delete_tracking,
        a.conflict_logging, exists (select from msrepl.sysmergepartitioninfo as i where i.artid = a.artid),
        a.identity_column is not null, a.column_numbers
    from msrepl.sysmergearticles as a
    order by a.nickname
$msrepl$;
alter function msrepl.merge_articles() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_articles() from public;
comment on function msrepl.merge_articles() is 'The articles, and what a session needs to know of each';

-- msrepl.merge_knows: whether a generation was closed here, by its number and GUID.
-- called by: merge agents, at the beginning of a session
-- tables:    msrepl.msmerge_genhistory
-- holes:     owner
--
-- A neighbour has it: if it is not here, this database was restored from before.
create or replace function msrepl.merge_knows(generation int8, guid uuid) returns boolean
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    select exists (select from msrepl.msmerge_genhistory as g where g.generation = $1 and g.guidsrc = $2)
$msrepl$;
alter function msrepl.merge_knows(int8, uuid) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_knows(int8, uuid) from public;
comment on function msrepl.merge_knows(int8, uuid) is 'Whether a generation was closed here';

-- msrepl.merge_begin_anew: forgets how far it is with the neighbour of the session, and what came from there.
-- called by: merge agents, if either end was restored from a backup; msrepl.merge_rewind
-- tables:    msrepl.sysmergesubscriptions, msrepl.msmerge_metadata, msrepl.msmerge_genhistory,
--            msrepl.msmerge_*_partition_mappings
-- holes:     owner
--
-- The next session then compares everything that was ever changed, but for what the neighbour has forgotten: up to its
-- generation `cleaned`, which this node had before. Of a filtered publication all rows of its partition travel: some may
-- have left it since, and nothing is known of them there.
create or replace function msrepl.merge_begin_anew(neighbour int8, cleaned int8) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    next_generation constant int8 := (select max(g.generation) + 1 from msrepl.msmerge_genhistory as g);
begin
    update msrepl.sysmergesubscriptions as s
    set replnickname = $1, former = case when s.replnickname = $1 then s.former else s.former || s.replnickname end,
        sentgen = 0, sentguid = null, known_from = $2, recgen = 0, recguid = null, coming_gen = null, coming_guid = null
    where s.subscriber_server = peer.subscriber_server;
    update msrepl.msmerge_metadata as m set source = null where m.source = any (peer.former || peer.replnickname);
    if peer.partition_id is not null then
        update msrepl.msmerge_current_partition_mappings as c set generation = next_generation where c.partition_id = peer.partition_id;
        insert into msrepl.msmerge_generation_partition_mappings as m (generation, partition_id, changecount)
        values (next_generation, peer.partition_id, 1) on conflict (partition_id, generation) do nothing;
    end if;
    update msrepl.msmerge_genhistory as g set known_by = null where peer.is_publisher and g.known_by is not null;
end
$msrepl$;
alter function msrepl.merge_begin_anew(int8, int8) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_begin_anew(int8, int8) from public;
comment on function msrepl.merge_begin_anew(int8, int8) is 'Forgets how far this node is with a neighbour';

-- msrepl.msmerge_identity_range: ranges of identity values, who draws from each, and in which order.
-- called by: msrepl.merge_allot_ranges, msrepl.merge_receive_ranges, msmerge_idn_<artid>, msmerge_idc_<artid>
-- tables:    itself
-- holes:     owner
--
-- A row is a run of values that stand step by step. Those of a Subscriber's own have places: its sequence counts
-- places, so that a range ends, and the next begins, in the middle of a statement. allotment is the number that the
-- Publisher has given to it. A republisher's own may begin with what it has allotted out of it. Rows are kept when a subscription ends: no value is allotted twice.
create table if not exists msrepl.msmerge_identity_range (
    id int8 generated always as identity primary key,
    artid uuid not null references msrepl.sysmergearticles on delete cascade,
    subscriber_server text not null,
    range_begin int8 not null,
    range_end int8 not null check (range_end >= range_begin),
    allotment int8,
    place_begin int8,
    place_end int8,
    check ((place_begin is null) = (place_end is null))
);
create unique index if not exists msmerge_identity_range_own on msrepl.msmerge_identity_range (artid, range_begin) where place_end is not null;
create unique index if not exists msmerge_identity_range_allotted on msrepl.msmerge_identity_range (artid, range_begin) where place_end is null;
create index if not exists msmerge_identity_range_place on msrepl.msmerge_identity_range (artid, place_end) where place_end is not null;
alter table msrepl.msmerge_identity_range owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_identity_range from public;
comment on table msrepl.msmerge_identity_range is 'Ranges of identity values, and who draws from each';

-- msrepl.msmerge_allotting: the last transaction that has begun to allot identity values at this node.
-- called by: msrepl.merge_allot_ranges, msrepl.merge_await_allotments
-- tables:    itself
-- holes:     owner
--
-- A sequence, which no snapshot hides: whoever judges a value by the ranges that a snapshot shows sees here whether that is
-- all of them.
create sequence if not exists msrepl.msmerge_allotting as bigint minvalue 0 start 0;
alter sequence msrepl.msmerge_allotting owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_allotting from public;

-- msrepl.merge_await_allotments: waits until every range that was allotted here can be seen.
-- called by: msmerge_idc_<artid>, in an application's transaction
-- tables:    msrepl.msmerge_allotting, msrepl.msmerge_identity_range
-- holes:     owner
--
-- One that was allotted since the snapshot of a transaction at REPEATABLE READ or SERIALIZABLE was taken is never seen
-- there: such a transaction must begin again (40001). The lock goes with its subtransaction, so that nobody who allots
-- waits for an application.
create or replace function msrepl.merge_await_allotments() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    last xid8;
begin
    loop
        last := pg_sequence_last_value('msrepl.msmerge_allotting')::text::xid8;
        exit when last is null or last = pg_current_xact_id_if_assigned()
            or pg_visible_in_snapshot(last, pg_current_snapshot());
        if current_setting('transaction_isolation') <> 'read committed' then
            raise exception 'identity values were allotted to a Subscriber since this transaction began'
                using errcode = 'serialization_failure', hint = 'Begin the transaction again.';
        end if;
        begin
            lock table msrepl.msmerge_identity_range in row exclusive mode;
            raise sqlstate 'MR000';
        exception when sqlstate 'MR000' then
            null;
        end;
    end loop;
end
$msrepl$;
alter function msrepl.merge_await_allotments() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_await_allotments() from public;
comment on function msrepl.merge_await_allotments() is 'Waits until every range that was allotted can be seen';

-- msrepl.merge_identity_left: how many identity values of an article can still be drawn at this node.
-- called by: msrepl.merge_ranges, msrepl.merge_allot_ranges; twopc.drivers.merge.ranges
-- tables:    msrepl.sysmergearticles, msrepl.msmerge_identity_range, catalogs, the article's sequence
-- holes:     owner
create or replace function msrepl.merge_identity_left(artid uuid) returns int8
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select case
        when a.created_table then (
            select coalesce(sum(r.place_end - greatest(r.place_begin, coalesce(d.last, 0) + 1) + 1), 0)::int8
            from msrepl.msmerge_identity_range as r where r.artid = a.artid and r.place_end > coalesce(d.last, 0))
        else greatest(0, (least(s.seqmax, case c.atttypid when 'int2'::regtype then 32767 when 'int4'::regtype then 2147483647 else 9223372036854775807 end)
            - coalesce(d.last, s.seqstart - s.seqincrement)) / s.seqincrement) end
    from msrepl.sysmergearticles as a
    join pg_sequence as s on s.seqrelid = a.identity_sequence
    join pg_attribute as c on c.attrelid = a.objid and c.attname = a.identity_column
    cross join lateral (select pg_sequence_last_value(a.identity_sequence) as last) as d
    where a.artid = $1
$msrepl$;
alter function msrepl.merge_identity_left(uuid) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_identity_left(uuid) from public;
comment on function msrepl.merge_identity_left(uuid) is 'How many identity values can still be drawn here';

-- msrepl.merge_allot_ranges: allots identity values of an article to a Subscriber, for ever.
-- called by: msrepl.merge_allot; twopc.drivers.merge.ranges, when a subscription begins
-- tables:    msrepl.sysmergearticles, msrepl.msmerge_identity_range, msrepl.msmerge_allotting, the article's sequence
-- holes:     owner
--
-- They are drawn as the node's own are, so that nobody waits and none is drawn twice: at the topmost Publisher from the
-- table's sequence, at a republisher from its own ranges. What others draw meanwhile divides a range into runs. Fewer
-- are allotted where fewer are left.
create or replace function msrepl.merge_allot_ranges(subscriber text, artid uuid, count int8)
returns table (allotment int8, range_begin int8, range_end int8)
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    article msrepl.sysmergearticles;
    amount constant int8 := least($3, msrepl.merge_identity_left($2));
begin
    lock table msrepl.msmerge_identity_range in share row exclusive mode;  -- one after the other: the last one tells of all
    perform setval('msrepl.msmerge_allotting', pg_current_xact_id()::text::int8);
    select a.* into article from msrepl.sysmergearticles as a where a.artid = $2;
    return query
        with drawn as materialized (
            select nextval(article.identity_sequence::regclass) as place from generate_series(1, amount)
        ), own as (
            select case when article.created_table
                then (select r.range_begin + (d.place - r.place_begin) * article.identity_step from msrepl.msmerge_identity_range as r
                      where r.artid = $2 and r.place_end >= d.place and r.place_begin <= d.place)
                else d.place end as value
            from drawn as d
        ), runs as (
            select min(o.value) as first, max(o.value) as last
            from (select o.value, o.value - article.identity_step * row_number() over (order by o.value) as run
                  from own as o where o.value is not null) as o
            group by o.run order by 1
        ), entered as (
            insert into msrepl.msmerge_identity_range as r (artid, subscriber_server, range_begin, range_end)
            select $2, $1, n.first, n.last from runs as n
            where not exists (select from msrepl.msmerge_identity_range as r
                              where r.artid = $2 and r.place_end is null and r.range_begin <= n.last and r.range_end >= n.first)
            returning r.id, r.range_begin, r.range_end
        )
        select e.id, e.range_begin, e.range_end from entered as e order by 2;
end
$msrepl$;
alter function msrepl.merge_allot_ranges(text, uuid, int8) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_allot_ranges(text, uuid, int8) from public;
comment on function msrepl.merge_allot_ranges(text, uuid, int8) is 'Allots identity values to a Subscriber';

-- msrepl.merge_allot: allots identity values to the neighbour, or tells again what was allotted and did not arrive.
-- called by: merge agents, at a Publisher
-- tables:    msrepl.sysmergearticles, msrepl.sysmergesubscriptions, msrepl.msmerge_identity_range; see
--            msrepl.merge_allot_ranges
-- holes:     owner
--
-- None are allotted while a Publisher that was restored from a backup does not know what each Subscriber holds. What a
-- Subscriber asks for is bounded: two ranges of its size.
create or replace function msrepl.merge_allot(artid uuid, received int8, count int8)
returns table (allotment int8, range_begin int8, range_end int8)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    size int8;
    amount int8;
begin
    select case peer.subscriber_type when 1 then a.pub_identity_range else a.identity_range end into size
    from msrepl.sysmergearticles as a where a.artid = $1 and a.identity_column is not null for update;
    if peer.is_publisher or not found or exists (
        select from msrepl.sysmergesubscriptions as s
        where not s.ranges_known and not s.is_publisher and s.login is not null and s.status = 1)
    then
        return;
    end if;
    amount := least($3, 2 * size);
    return query
        select r.id, r.range_begin, r.range_end from msrepl.msmerge_identity_range as r
        where r.artid = $1 and r.subscriber_server = peer.subscriber_server and r.place_end is null and r.id > $2;
    if not found then
        return query select * from msrepl.merge_allot_ranges(peer.subscriber_server, $1, amount);
    end if;
end
$msrepl$;
alter function msrepl.merge_allot(uuid, int8, int8) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_allot(uuid, int8, int8) from public;
comment on function msrepl.merge_allot(uuid, int8, int8) is 'Allots identity values to the neighbour';

-- msrepl.merge_receive_ranges: takes ranges of identity values that the Publisher has allotted to this node.
-- called by: merge agents, at a Subscriber; twopc.drivers.merge.ranges, when a subscription begins
-- tables:    msrepl.sysmergearticles, msrepl.sysmergesubscriptions, msrepl.msmerge_identity_range
-- holes:     owner
--
-- Harmless twice. Places go on above those that were counted.
create or replace function msrepl.merge_receive_ranges(artid uuid, allotments int8[], begins int8[], ends int8[]) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    article msrepl.sysmergearticles;
    name constant text := (select s.subscriber_server from msrepl.sysmergesubscriptions as s where s.is_self);
    run record;
    place int8;
begin
    if session_user in (select s.login from msrepl.sysmergesubscriptions as s where not s.is_publisher) then
        raise exception '% allots no ranges to this node', (msrepl.merge_neighbour()).subscriber_server
            using errcode = 'insufficient_privilege';
    end if;
    select a.* into article from msrepl.sysmergearticles as a where a.artid = $1 and a.created_table for update;
    place := 1 + greatest(
        pg_sequence_last_value(article.identity_sequence),
        (select max(r.place_end) from msrepl.msmerge_identity_range as r where r.artid = $1));
    update msrepl.msmerge_identity_range as r set allotment = u.allotment
    from unnest($2, $3) as u(allotment, first)
    where r.artid = $1 and r.range_begin = u.first and r.place_end is not null;
    for run in
        select u.* from unnest($2, $3, $4) as u(allotment, first, last)
        where not exists (select from msrepl.msmerge_identity_range as r where r.artid = $1 and r.range_begin = u.first and r.place_end is not null)
        order by u.allotment
    loop
        insert into msrepl.msmerge_identity_range as r
            (artid, subscriber_server, range_begin, range_end, allotment, place_begin, place_end)
        values ($1, name, run.first, run.last, run.allotment, place, place + (run.last - run.first) / article.identity_step);
        place := place + (run.last - run.first) / article.identity_step + 1;
    end loop;
end
$msrepl$;
alter function msrepl.merge_receive_ranges(uuid, int8[], int8[], int8[]) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_receive_ranges(uuid, int8[], int8[], int8[]) from public;
comment on function msrepl.merge_receive_ranges(uuid, int8[], int8[], int8[]) is 'Takes ranges of identity values that were allotted';

-- msrepl.merge_ranges: what this node has left of its identity ranges, and how many values a range has.
-- called by: merge agents, at a Subscriber
-- tables:    msrepl.sysmergearticles, msrepl.sysmergesubscriptions, msrepl.msmerge_identity_range
-- holes:     owner
--
-- received is the last allotment of the Publisher's that is here, and newest its first value; NULL: none is, so that none
-- that was allotted before may be drawn from.
create or replace function msrepl.merge_ranges()
returns table (artid uuid, left_over int8, range_size int8, threshold integer, received int8, newest int8)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    select a.artid, msrepl.merge_identity_left(a.artid),
           case s.subscriber_type when 1 then a.pub_identity_range else a.identity_range end, a.identity_threshold,
           n.allotment, n.range_begin
    from msrepl.sysmergearticles as a
    join msrepl.sysmergesubscriptions as s on s.is_self
    left join lateral (
        select r.allotment, r.range_begin from msrepl.msmerge_identity_range as r
        where r.artid = a.artid and r.place_end is not null order by r.allotment desc limit 1) as n on true
    where a.created_table and a.identity_column is not null
    order by a.nickname
$msrepl$;
alter function msrepl.merge_ranges() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_ranges() from public;
comment on function msrepl.merge_ranges() is 'What this node has left of its identity ranges';

-- msrepl.merge_ranges_held: the identity ranges that this node draws from, and the highest value that it has seen.
-- called by: merge agents, at a Subscriber of a Publisher that was restored from a backup
-- tables:    msrepl.sysmergearticles, msrepl.msmerge_identity_range; see msmerge_idh_<artid>
-- holes:     owner
create or replace function msrepl.merge_ranges_held()
returns table (artid uuid, begins int8[], ends int8[], highest int8)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
begin
    perform msrepl.merge_neighbour();
    for artid, begins, ends in
        select a.artid, array_agg(r.range_begin order by r.id) filter (where r.place_end is not null),
               array_agg(r.range_end order by r.id) filter (where r.place_end is not null)
        from msrepl.sysmergearticles as a
        left join msrepl.msmerge_identity_range as r on r.artid = a.artid
        where a.created_table and a.identity_column is not null
        group by a.artid order by a.artid
    loop
        execute format('select msrepl.%I()', 'msmerge_idh_' || replace(artid::text, '-', '')) into highest;
        return next;
    end loop;
end
$msrepl$;
alter function msrepl.merge_ranges_held() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_ranges_held() from public;
comment on function msrepl.merge_ranges_held() is 'The identity ranges that this node draws from';

-- msrepl.merge_learn_ranges: enters ranges that this node has allotted to the neighbour, and has forgotten.
-- called by: merge agents, at a Publisher that was restored from a backup
-- tables:    msrepl.sysmergearticles, msrepl.msmerge_identity_range, the article's sequence
-- holes:     owner
--
-- The sequence of a topmost Publisher moves beyond all values that the neighbour has, as if they were drawn: no other
-- way is safe beside those who draw. It does so for ten million values at most, since it is an agent's word. Returns the
-- ranges with the numbers that they have here now, lower perhaps than those that the neighbour knows; NULL if one of them
-- was allotted to another since the restore.
create or replace function msrepl.merge_learn_ranges(artid uuid, begins int8[], ends int8[], highest int8)
returns table (allotment int8, range_begin int8, range_end int8)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    name constant text := (msrepl.merge_neighbour()).subscriber_server;
    article msrepl.sysmergearticles;
    sequence pg_sequence;
    behind int8;
    is_own boolean;
begin
    if (msrepl.merge_neighbour()).is_publisher or (msrepl.merge_neighbour()).ranges_known then
        return;
    end if;
    select a.* into article from msrepl.sysmergearticles as a
    where a.artid = $1 and a.identity_column is not null for update;
    select s.* into sequence from pg_sequence as s where s.seqrelid = article.identity_sequence;
    if not article.created_table then
        behind := ((select max(u.v) from unnest($3 || $4) as u(v))
            - coalesce(pg_sequence_last_value(sequence.seqrelid), sequence.seqstart - sequence.seqincrement)) / sequence.seqincrement;
        if behind > 10000000 then
            raise exception '% has values up to % of column % of table %, and the sequence of this node is more than ten million behind',
                name, (select max(u.v) from unnest($3 || $4) as u(v)), article.identity_column, article.source_object
                using errcode = 'object_not_in_prerequisite_state', hint = 'Move the sequence beyond that value with setval.';
        end if;
        perform nextval(sequence.seqrelid::regclass) from generate_series(1, behind);
    end if;
    is_own := not exists (
        select from unnest($2, $3) as u(first, last)
        join msrepl.msmerge_identity_range as r on r.artid = $1 and r.place_end is null
            and r.subscriber_server <> name and r.range_begin <= u.last and r.range_end >= u.first);
    if not is_own then
        return query select null::int8, null::int8, null::int8;
        return;
    end if;
    insert into msrepl.msmerge_identity_range (artid, subscriber_server, range_begin, range_end)
    select $1, name, u.first, u.last from unnest($2, $3) as u(first, last)
    on conflict (artid, range_begin) where place_end is null do nothing;
    return query
        select r.id, r.range_begin, r.range_end from msrepl.msmerge_identity_range as r
        where r.artid = $1 and r.place_end is null and r.range_begin = any ($2);
end
$msrepl$;
alter function msrepl.merge_learn_ranges(uuid, int8[], int8[], int8) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_learn_ranges(uuid, int8[], int8[], int8) from public;
comment on function msrepl.merge_learn_ranges(uuid, int8[], int8[], int8) is 'Enters ranges that this node has allotted and forgotten';

-- msrepl.merge_knows_ranges: whether this node has allotted ranges to the neighbour, by their first values.
-- called by: merge agents, at a Publisher
-- tables:    msrepl.sysmergesubscriptions, msrepl.msmerge_identity_range
-- holes:     owner
--
-- The neighbour has them: if one is not here, this database was restored from before. NULL: that is known already, and the
-- neighbour has not told since what it holds.
create or replace function msrepl.merge_knows_ranges(artids uuid[], firsts int8[]) returns boolean
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    select not exists (
        select from unnest($1, $2) as u(artid, first)
        where not exists (
            select from msrepl.msmerge_identity_range as r
            where r.artid = u.artid and r.range_begin = u.first and r.place_end is null
              and r.subscriber_server = peer.subscriber_server))
    from msrepl.merge_neighbour() as peer where peer.ranges_known
$msrepl$;
alter function msrepl.merge_knows_ranges(uuid[], int8[]) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_knows_ranges(uuid[], int8[]) from public;
comment on function msrepl.merge_knows_ranges(uuid[], int8[]) is 'Whether this node has allotted ranges to the neighbour';

-- msrepl.merge_note_ranges: notes that the neighbour has told which ranges it holds.
-- called by: merge agents, at a Publisher that was restored from a backup
-- tables:    msrepl.sysmergesubscriptions
-- holes:     owner
create or replace function msrepl.merge_note_ranges() returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    update msrepl.sysmergesubscriptions as s set ranges_known = true
    where s.subscriber_server = (msrepl.merge_neighbour()).subscriber_server and not s.ranges_known
$msrepl$;
alter function msrepl.merge_note_ranges() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_note_ranges() from public;
comment on function msrepl.merge_note_ranges() is 'Notes that the neighbour has told which ranges it holds';

-- msrepl.merge_withdraw_ranges: has this node draw from its ranges of an article no more.
-- called by: merge agents, at a Subscriber whose ranges were allotted to another as well
-- tables:    msrepl.msmerge_identity_range
-- holes:     owner
create or replace function msrepl.merge_withdraw_ranges(artid uuid) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
begin
    if (msrepl.merge_neighbour()).is_publisher then
        delete from msrepl.msmerge_identity_range as r where r.artid = $1 and r.place_end is not null;
    end if;
end
$msrepl$;
alter function msrepl.merge_withdraw_ranges(uuid) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_withdraw_ranges(uuid) from public;
comment on function msrepl.merge_withdraw_ranges(uuid) is 'Has this node draw from its ranges of an article no more';

-- msrepl.merge_rewind: becomes another replica, because this database was restored from a backup.
-- called by: merge agents, if a neighbour knows what this database has forgotten
-- tables:    msrepl.msmerge_replica, msrepl.sysmergesubscriptions, msrepl.msmerge_metadata, msrepl.msmerge_genhistory,
--            msrepl.msmerge_identity_range
-- holes:     owner
--
-- What was changed here up to the last generation that the neighbour has confirmed keeps its versions, under the old
-- number. Identity ranges of its own are withdrawn, since values were drawn from them that it does not know of; it allots
-- none before each Subscriber has told what it holds. What was changed later may have versions that were given before, to other changes: it is changed once
-- more, by the new number, and stands on the old one's changes no longer.
create or replace function msrepl.merge_rewind() returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    old constant int8 := (select r.replica from msrepl.msmerge_replica as r);
    common constant pg_snapshot := (select g.snap from msrepl.msmerge_genhistory as g where g.generation = peer.sentgen);
    drawn constant int8 := greatest(1, ('x' || left(gen_random_uuid()::text, 8))::bit(32)::int8);
begin
    update msrepl.msmerge_replica as r set replica = drawn, former = r.former || old;
    update msrepl.sysmergesubscriptions as s set replnickname = drawn, former = s.former || old where s.is_self;
    update msrepl.msmerge_metadata as m
    set lineage = msrepl.merge_lineage(m.lineage, old, m.own), own = 0, colv = msrepl.merge_colv(m.colv, old)
    where m.own > 0 and pg_visible_in_snapshot(m.xid, common);
    update msrepl.msmerge_metadata as m
    set xid = pg_current_xact_id(), own = m.top + 1, top = m.top + 1, source = null,
        colv = case when m.colv is not null then array(
            select case when c.v <> 0 and c.v >> 31 in (0, old) then m.top + 1 else c.v end
            from unnest(m.colv) with ordinality as c(v, place) order by c.place) end
    where m.own > 0 and not pg_visible_in_snapshot(m.xid, common);
    delete from msrepl.msmerge_identity_range as r where r.place_end is not null;
    update msrepl.sysmergesubscriptions as s set ranges_known = false where s.login is not null and not s.is_publisher;
    perform msrepl.merge_begin_anew(peer.replnickname, greatest(peer.recgen, peer.known_from));
end
$msrepl$;
alter function msrepl.merge_rewind() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_rewind() from public;
comment on function msrepl.merge_rewind() is 'Becomes another replica after the database was restored';

-- msrepl.merge_forget_failures: forgets failures of a neighbour's changes that have not failed again in this transaction.
-- called by: msrepl.merge_receive
-- tables:    msrepl.msmerge_conflicts_info, msrepl.sysmergearticles, the articles' tables of conflicts
-- holes:     owner
--
-- A change that has failed comes in every generation until it is applied, or another has taken its place: whoever
-- resolved it by hand then would put an old row over a newer one. Those that were undone stay on record.
create or replace function msrepl.merge_forget_failures() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    past record;
begin
    for past in
        with gone as (
            delete from msrepl.msmerge_conflicts_info as c
            where c.is_pending and c.origin_datasource_id = any (peer.former || peer.replnickname)
              and c.msrepl_create_time < now()
            returning c.conflict_id, c.tablenick)
        select g.conflict_id, a.conflict_table from gone as g join msrepl.sysmergearticles as a on a.nickname = g.tablenick
    loop
        execute format('delete from msrepl.%I where msrepl_conflict_id = $1', past.conflict_table) using past.conflict_id;
    end loop;
end
$msrepl$;
alter function msrepl.merge_forget_failures() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_forget_failures() from public;
comment on function msrepl.merge_forget_failures() is 'Forgets failures of changes that were applied at last';

-- msrepl.merge_receive: marks how far the neighbour's generations have arrived, in the commit of their rows.
-- called by: merge agents
-- tables:    msrepl.sysmergesubscriptions; see msrepl.merge_forget_failures
-- holes:     owner
create or replace function msrepl.merge_receive(generation int8, guid uuid, is_whole boolean) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
begin
    update msrepl.sysmergesubscriptions as s
    set coming_gen = case when not is_whole then $1 end,
        coming_guid = case when not is_whole then $2 end,
        recgen = case when is_whole then $1 else s.recgen end,
        recguid = case when is_whole then $2 else s.recguid end
    where s.subscriber_server = (msrepl.merge_neighbour()).subscriber_server;
    if $3 then
        perform msrepl.merge_forget_failures();
    end if;
end
$msrepl$;
alter function msrepl.merge_receive(int8, uuid, boolean) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_receive(int8, uuid, boolean) from public;
comment on function msrepl.merge_receive(int8, uuid, boolean) is 'Marks what has arrived from a neighbour';

-- msrepl.merge_touch_partition: has rows leave a partition again to which they do not belong; the others come again.
-- called by: msrepl.merge_touch_mappings; twopc.drivers.merge.partitions
-- tables:    msrepl.msmerge_*_partition_mappings, msrepl.msmerge_genhistory
-- holes:     owner
--
-- With the next generation, which the next close makes of it. comes_again: false: rows that belong there stay as they are.
create or replace function msrepl.merge_touch_partition(tablenick integer, partition integer, guids uuid[], comes_again boolean)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    next_generation constant int8 := (select max(g.generation) + 1 from msrepl.msmerge_genhistory as g);
begin
    update msrepl.msmerge_current_partition_mappings as c set generation = next_generation
    where $4 and c.tablenick = $1 and c.partition_id = $2 and c.rowguid = any ($3);
    insert into msrepl.msmerge_past_partition_mappings as p (tablenick, rowguid, partition_id, generation, reason)
    select $1, u.guid, $2, next_generation, 4 from unnest($3) as u(guid)
    where not exists (
        select from msrepl.msmerge_current_partition_mappings as c
        where c.tablenick = $1 and c.rowguid = u.guid and c.partition_id = $2)
    on conflict (tablenick, rowguid, partition_id) do update set generation = excluded.generation;
    insert into msrepl.msmerge_generation_partition_mappings as m (generation, partition_id, changecount)
    values (next_generation, $2, cardinality($3)) on conflict (partition_id, generation) do nothing;
end
$msrepl$;
alter function msrepl.merge_touch_partition(integer, integer, uuid[], boolean) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_touch_partition(integer, integer, uuid[], boolean) from public;
comment on function msrepl.merge_touch_partition(integer, integer, uuid[], boolean)
    is 'Has rows leave a partition again to which they do not belong';

-- msrepl.merge_touch_mappings: has rows travel once more to the partition of the session's neighbour, or leave it again.
-- called by: merge agents, after rows of its were applied; msrepl.merge_acknowledge
-- tables:    msrepl.sysmergearticles, msrepl.sysmergepartitioninfo; see msrepl.merge_touch_partition
-- holes:     owner
--
-- What a Subscriber has sent, and does not belong to it, it is to hear that it leaves; the next close finds out what does
-- belong. Where rows have failed, those that belong are sent again too.
create or replace function msrepl.merge_touch_mappings(artid uuid, guids uuid[], has_failed boolean) returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    select msrepl.merge_touch_partition(a.nickname, n.partition_id, $2, $3)
    from msrepl.sysmergearticles as a
    join msrepl.sysmergepartitioninfo as i on i.artid = a.artid
    cross join msrepl.merge_neighbour() as n
    where a.artid = $1 and n.partition_id is not null and cardinality($2) > 0
$msrepl$;
alter function msrepl.merge_touch_mappings(uuid, uuid[], boolean) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_touch_mappings(uuid, uuid[], boolean) from public;
comment on function msrepl.merge_touch_mappings(uuid, uuid[], boolean) is 'Has rows travel once more to a partition, or leave it again';

-- msrepl.merge_acknowledge: notes that the neighbour has a generation of ours, but for rows that failed there, or were left.
-- called by: merge agents
-- tables:    msrepl.sysmergesubscriptions, msrepl.sysmergearticles, msrepl.msmerge_metadata
-- holes:     owner
--
-- Those are touched: they belong to the next generation, and are sent again. Were they not, what is known of a row that was
-- left might be forgotten before the change comes up for whose sake it was left, and this would overwrite it unseen.
create or replace function msrepl.merge_acknowledge(generation int8, guid uuid, artids uuid[], guids uuid[])
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
begin
    update msrepl.sysmergesubscriptions as s
    set sentgen = $1, sentguid = $2, last_sync_date = clock_timestamp()
    where s.subscriber_server = (msrepl.merge_neighbour()).subscriber_server;
    perform from unnest($3, $4) as f(artid, rowguid)
    join msrepl.sysmergearticles as a on a.artid = f.artid
    join msrepl.msmerge_metadata as m on m.tablenick = a.nickname and m.rowguid = f.rowguid
    order by a.nickname, m.rowguid
    for update of m;
    update msrepl.msmerge_metadata as m
    set xid = pg_current_xact_id()
    from unnest($3, $4) as f(artid, rowguid) join msrepl.sysmergearticles as a on a.artid = f.artid
    where m.tablenick = a.nickname and m.rowguid = f.rowguid;
    perform msrepl.merge_touch_mappings(f.artid, array_agg(f.rowguid), true)
    from unnest($3, $4) as f(artid, rowguid) group by f.artid;
end
$msrepl$;
alter function msrepl.merge_acknowledge(int8, uuid, uuid[], uuid[]) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_acknowledge(int8, uuid, uuid[], uuid[]) from public;
comment on function msrepl.merge_acknowledge(int8, uuid, uuid[], uuid[]) is 'Notes what a neighbour has of ours';

-- msrepl.merge_clean_up: forgets what is known of rows that nobody needs any more; of how many rows it was.
-- called by: msrepl.merge_end_session, msrepl.merge_settle; twopc.drivers.merge.retention
-- tables:    msrepl.sysmergesubscriptions, msrepl.sysmergearticles, msrepl.msmerge_metadata, msrepl.msmerge_floor_*,
--            msrepl.msmerge_genhistory, msrepl.msmerge_*_partition_mappings, msrepl.msmerge_replica,
--            msrepl.sysmergepublications, pg_locks
-- holes:     owner
--
-- The topmost Publisher forgets generations that are older than the retention and a day, and that every Subscriber
-- has confirmed that has not expired; a Subscriber those of which its Publisher has forgotten all. The twin of twopc.merge.retention.forgettable. First the floor of versions is raised. A
-- statement that has read it before, and has not ended, might still give a low version to a row that is forgotten
-- meanwhile: then nothing is forgotten this time. A row that a transaction has locked stays, and the generations
-- with it. Nobody waits.
create or replace function msrepl.merge_clean_up() returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    publisher msrepl.sysmergesubscriptions;
    article msrepl.sysmergearticles;
    upto int8;
    last pg_snapshot;
    highest integer;
    highest_before integer;
    waits text[];
    remaining integer := 0;
    forgotten integer := 0;
    count integer;
begin
    update msrepl.sysmergesubscriptions as s set status = 2
    from (select max(p.retention) as retention from msrepl.sysmergepublications as p having min(p.retention) > 0) as p
    where s.status = 1 and s.login is not null and not s.is_publisher and msrepl.merge_is_expired(s)
        and clock_timestamp() - coalesce(s.last_sync_date, s.subscribed_at) > make_interval(days => 2 * p.retention);
    select s.* into publisher from msrepl.sysmergesubscriptions as s where s.is_publisher;
    select max(g.generation) into upto
    from msrepl.msmerge_genhistory as g
    where g.generation <= all (
            select s.sentgen from msrepl.sysmergesubscriptions as s
            where s.login is not null and not s.is_publisher and s.status = 1 and msrepl.merge_is_expired(s) is not true)
        and case when publisher.is_publisher then g.known_by <= publisher.cleaned_to else g.coldate <= (
            select clock_timestamp() - make_interval(days => max(p.retention) + 1)
            from msrepl.sysmergepublications as p having min(p.retention) > 0) end;
    if upto is null or upto <= (select r.cleaned from msrepl.msmerge_replica as r) then
        return 0;
    end if;
    select g.snap into last from msrepl.msmerge_genhistory as g where g.generation = upto;

    for article in select a.* from msrepl.sysmergearticles as a order by a.nickname loop
        select max(m.top) into highest from msrepl.msmerge_metadata as m
        where m.tablenick = article.nickname and m.xid < pg_snapshot_xmax(last) and pg_visible_in_snapshot(m.xid, last);
        execute format('select f.last_value from msrepl.%I as f', 'msmerge_floor_' || article.nickname) into highest_before;
        waits := article.cleanup_waits;
        if highest > highest_before then
            perform setval(format('msrepl.%I', 'msmerge_floor_' || article.nickname)::regclass, highest);
            waits := array(select l.virtualtransaction from pg_locks as l
                           where l.relation = article.objid and l.mode = 'RowExclusiveLock' and l.pid <> pg_backend_pid()
                             and l.database = (select d.oid from pg_database as d where d.datname = current_database()));
        end if;
        waits := array(select w.v from unnest(waits) as w(v)
                       where exists (select from pg_locks as l where l.virtualtransaction = w.v));
        update msrepl.sysmergearticles as a set cleanup_waits = waits
        where a.artid = article.artid and a.cleanup_waits is distinct from waits;
        remaining := remaining + cardinality(waits);
    end loop;
    if remaining > 0 then
        return 0;
    end if;

    for article in select a.* from msrepl.sysmergearticles as a order by a.nickname loop
        delete from msrepl.msmerge_metadata as m
        where m.tablenick = article.nickname and m.rowguid = any (array(
            select o.rowguid from msrepl.msmerge_metadata as o
            where o.tablenick = article.nickname and o.xid < pg_snapshot_xmax(last) and pg_visible_in_snapshot(o.xid, last)
            for update skip locked));
        get diagnostics count = row_count;
        forgotten := forgotten + count;
    end loop;
    if not exists (select from msrepl.msmerge_metadata as m
                   where m.xid < pg_snapshot_xmax(last) and pg_visible_in_snapshot(m.xid, last)) then
        delete from msrepl.msmerge_genhistory as g where g.generation > 0 and g.generation < upto;
        update msrepl.msmerge_replica as r set cleaned = upto;
        delete from msrepl.msmerge_past_partition_mappings as p
        where p.generation <= upto and not exists (  -- what has stayed where it does not belong is known as long as it stays
            select from msrepl.sysmergearticles as a join msrepl.sysmergepartitioninfo as i on i.artid = a.artid
            where a.nickname = p.tablenick and not i.allow_partition_realignment);
        delete from msrepl.msmerge_generation_partition_mappings as p where p.generation <= upto;
    end if;
    return forgotten;
end
$msrepl$;
alter function msrepl.merge_clean_up() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_clean_up() from public;
comment on function msrepl.merge_clean_up() is 'Forgets what is known of rows that nobody needs any more';

-- msrepl.msmerge_sessions: sessions that have ended here, of each Subscriber.
-- called by: msrepl.merge_end_session
-- tables:    itself
-- holes:     owner
--
-- duration is in seconds. runstatus: 2 succeeded, 6 failed, and error says why. Rows are those that were written.
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
alter table msrepl.msmerge_sessions owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_sessions from public;
comment on table msrepl.msmerge_sessions is 'Sessions that have ended here';

-- msrepl.msmerge_articlehistory: what a session has done to each article.
-- called by: msrepl.merge_end_session
-- tables:    itself; msrepl.msmerge_sessions
-- holes:     owner
--
-- phase_id: 1 upload, 2 download. Rows are those that were written, deletes those of them that went.
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
alter table msrepl.msmerge_articlehistory owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_articlehistory from public;
comment on table msrepl.msmerge_articlehistory is 'What each session has done to each article';

-- msrepl.merge_end_session: records a session of the neighbour's, and forgets what nobody needs any more.
-- called by: merge agents, at a Publisher
-- tables:    msrepl.msmerge_sessions, msrepl.msmerge_articlehistory, msrepl.sysmergesubscriptions,
--            msrepl.sysmergearticles, msrepl.msmerge_replica; see msrepl.merge_clean_up, msrepl.merge_clean_conflicts
-- holes:     owner
--
-- Returns the generation up to which this node has forgotten. error is NULL unless the session has failed. Sessions
-- are kept for fourteen days. The record of one that has forgotten nothing may be lost with the server.
create or replace function msrepl.merge_end_session(
    duration real, resumed boolean, anew boolean, error text, artids uuid[], phases smallint[], counts integer[],
    deletes integer[], conflicts integer[], deferred integer[], retried integer[]
) returns int8
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    name constant text := (msrepl.merge_neighbour()).subscriber_server;
    forgotten integer := 0;
    id int8;
begin
    if $4 is null then
        update msrepl.sysmergesubscriptions as s set last_sync_date = clock_timestamp() where s.subscriber_server = name;
        forgotten := msrepl.merge_clean_up();
        perform msrepl.merge_clean_conflicts();
    end if;
    if forgotten = 0 then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    insert into msrepl.msmerge_sessions as s (
        subscriber_server, start_time, end_time, duration, upload_rows, download_rows, conflicts, rows_deferred, rows_retried,
        metadata_rows_cleanedup, resumed, anew, runstatus, error)
    select name, clock_timestamp() - make_interval(secs => $1), clock_timestamp(), $1,
           coalesce(sum(c.rows) filter (where c.phase = 1), 0), coalesce(sum(c.rows) filter (where c.phase = 2), 0),
           coalesce(sum(c.conflicts), 0), coalesce(sum(c.deferred), 0), coalesce(sum(c.retried), 0), forgotten, $2, $3,
           case when $4 is null then 2 else 6 end, $4
    from unnest($6, $7, $9, $10, $11) as c(phase, rows, conflicts, deferred, retried)
    returning s.session_id into id;
    insert into msrepl.msmerge_articlehistory
        (session_id, phase_id, article_name, rows, deletes, conflicts, rows_deferred, rows_retried)
    select id, c.phase, a.source_schema || '.' || a.source_object, c.rows, c.deletes, c.conflicts, c.deferred, c.retried
    from unnest($5, $6, $7, $8, $9, $10, $11) as c(artid, phase, rows, deletes, conflicts, deferred, retried)
    join msrepl.sysmergearticles as a on a.artid = c.artid;
    delete from msrepl.msmerge_sessions as s where s.end_time < clock_timestamp() - interval '14 days';
    return (select r.cleaned from msrepl.msmerge_replica as r);
end
$msrepl$;
alter function msrepl.merge_end_session(real, boolean, boolean, text, uuid[], smallint[], integer[], integer[], integer[], integer[], integer[]) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_end_session(real, boolean, boolean, text, uuid[], smallint[], integer[], integer[], integer[], integer[], integer[]) from public;
comment on function msrepl.merge_end_session(real, boolean, boolean, text, uuid[], smallint[], integer[], integer[], integer[], integer[], integer[])
    is 'Records a session, and forgets what nobody needs any more';

-- msrepl.merge_settle: notes at the end of a session what the Publisher has, and has forgotten, and forgets likewise.
-- called by: merge agents, at a Subscriber
-- tables:    msrepl.sysmergesubscriptions, msrepl.msmerge_genhistory; see msrepl.merge_clean_up, msrepl.merge_clean_conflicts
-- holes:     owner
--
-- generation is the Publisher's that holds all that this node had sent before.
create or replace function msrepl.merge_settle(generation int8, cleaned int8) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
begin
    if not peer.is_publisher then
        raise exception '% is no Publisher of this node', peer.subscriber_server using errcode = 'insufficient_privilege';
    end if;
    update msrepl.msmerge_genhistory as g set known_by = $1 where g.generation = peer.sentgen and g.known_by is null;
    update msrepl.sysmergesubscriptions as s set cleaned_to = $2
    where s.subscriber_server = peer.subscriber_server and s.cleaned_to < $2;
    perform msrepl.merge_clean_up();
    perform msrepl.merge_clean_conflicts();
end
$msrepl$;
alter function msrepl.merge_settle(int8, int8) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_settle(int8, int8) from public;
comment on function msrepl.merge_settle(int8, int8) is 'Notes what the Publisher has, and forgets what it has forgotten';

-- msrepl.merge_record_failure: records a change of a neighbour that could not be applied here.
-- called by: msrepl.merge_apply
-- tables:    msrepl.msmerge_conflicts_info, msrepl.sysmergearticles; the article's table
-- holes:     owner
--
-- Types 5 and 6: an insert that failed, on the way up or down; 7 and 8 a delete, 9 and 10 an update. The id is that
-- of the row and its origin: a change that fails again in a later session is recorded once. is_pending: it is sent
-- again until it is applied, and was not undone; until then it is on record here alone.
create or replace function msrepl.merge_record_failure(
    artid uuid, guid uuid, is_gone boolean, "row" text, code text, reason text, is_pending boolean
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    nick constant integer := (select a.nickname from msrepl.sysmergearticles as a where a.artid = $1);
    id constant uuid := md5(concat_ws(' ', nick, guid, peer.replnickname))::uuid;
    is_held boolean;
begin
    execute format('select exists (select from msrepl.%I(array[$1]))', 'msmerge_read_' || replace(artid::text, '-', ''))
        into is_held using guid;
    insert into msrepl.msmerge_conflicts_info as c
        (conflict_id, tablenick, rowguid, origin_datasource, origin_datasource_id, conflict_type, reason_code, reason_text,
         is_pending, recipient)
    values (id, nick, guid, peer.subscriber_server, peer.replnickname,
            case when is_gone then 7 when is_held then 9 else 5 end + case when peer.is_publisher then 1 else 0 end,
            code, reason, $7, (select peer.subscriber_server from msrepl.sysmergearticles as a
                           where a.nickname = nick and a.conflict_logging <> 'publisher' and not peer.is_publisher and not $7))
    on conflict (conflict_id) do update
    set conflict_type = excluded.conflict_type, missing_columns = '{}', reason_code = excluded.reason_code, reason_text = excluded.reason_text,
        is_pending = excluded.is_pending, recipient = excluded.recipient, msrepl_create_time = excluded.msrepl_create_time;
    if not is_gone then
        begin
            execute format('select msrepl.%I($1, $2, $3)', 'msmerge_log_' || replace(artid::text, '-', ''))
                using id, guid, "row";
        exception
            when others or assert_failure then
                null;  -- a value that no column of that type takes here: it is known by its reason alone
        end;
    end if;
end
$msrepl$;
alter function msrepl.merge_record_failure(uuid, uuid, boolean, text, text, text, boolean) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_record_failure(uuid, uuid, boolean, text, text, text, boolean) from public;
comment on function msrepl.merge_record_failure(uuid, uuid, boolean, text, text, text, boolean)
    is 'Records a change that could not be applied';

-- msrepl.merge_record_failures: records changes of a neighbour that were rejected here, or could not be decided about.
-- called by: merge agents, in the transaction that would have applied them
-- tables:    see msrepl.merge_record_failure
-- holes:     owner
create or replace function msrepl.merge_record_failures(
    artid uuid, guids uuid[], gones boolean[], rows text[], codes text[], reasons text[], is_pending boolean
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    perform msrepl.merge_record_failure($1, f.guid, f.is_gone, f."row", f.code, f.reason, $7)
    from unnest($2, $3, $4, $5, $6) as f(guid, is_gone, "row", code, reason);
end
$msrepl$;
alter function msrepl.merge_record_failures(uuid, uuid[], boolean[], text[], text[], text[], boolean) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_record_failures(uuid, uuid[], boolean[], text[], text[], text[], boolean) from public;
comment on function msrepl.merge_record_failures(uuid, uuid[], boolean[], text[], text[], text[], boolean)
    is 'Records changes that were not applied';

-- msrepl.merge_apply: applies rows of one article, as a set if that works, else each by itself.
-- called by: merge agents
-- tables:    msrepl.sysmergesubscriptions
-- holes:     owner
--
-- A row that breaks a constraint never stops a session: it is tried again after the others, and reported if it
-- fails then. Such a failure is recorded, once per row, if is_final. What is no fault of the row (a deadlock, a lock
-- that does not come, a full disk) is the caller's. choices are those of msmerge_take_<artid>; if
-- they are 'leave', the rows have left the Subscriber's partition.
create or replace function msrepl.merge_apply(
    artid uuid, guids uuid[], gones boolean[], lineages text[], colvs text[], writers int8[], rows text[],
    is_final boolean, choices text[] default null,
    out applied integer, out skipped integer, out conflicts integer, out deferred uuid[],
    out failed uuid[], out codes text[], out reasons text[]
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_variable
declare
    name constant text := replace(artid::text, '-', '');
    take constant text := case choices[1]
        when 'leave' then format('select l.applied, 0 as skipped, 0 as conflicts, l.deferred from msrepl.%I($1) as l', 'msmerge_leave_' || name)
        else format('select * from msrepl.%I($1, $2, $3, $4, $5, $6, $7)', 'msmerge_take_' || name) end;
    left_over integer[] := array(select generate_series(1, cardinality(guids)));
    later integer[];
    place integer;
    counts integer[];
    left_now uuid[];
    code text;
    reason text;
begin
    applied := 0; skipped := 0; conflicts := 0; deferred := '{}';
    failed := '{}'; codes := '{}'; reasons := '{}';
    perform msrepl.merge_neighbour();
    begin
        execute take into applied, skipped, conflicts, deferred using guids, gones, lineages, colvs, writers, rows, choices;
        return;
    exception
        when transaction_rollback or lock_not_available or insufficient_resources
            or operator_intervention or system_error or internal_error then
            raise;
        when others or assert_failure then
            null;
    end;
    loop
        later := '{}'; failed := '{}'; codes := '{}'; reasons := '{}';
        foreach place in array left_over loop
            begin
                execute format('select array[applied, skipped, conflicts], deferred from (%s) as t', take) into counts, left_now
                    using array[guids[place]], array[gones[place]], array[lineages[place]], array[colvs[place]],
                          array[writers[place]], array[rows[place]], array[choices[place]];
                applied := applied + counts[1];
                skipped := skipped + counts[2];
                conflicts := conflicts + counts[3];
                deferred := deferred || left_now;
            exception
                when transaction_rollback or lock_not_available or insufficient_resources
                    or operator_intervention or system_error or internal_error then
                    raise;
                when others or assert_failure then
                    get stacked diagnostics code = returned_sqlstate, reason = message_text;
                    later := later || place;
                    failed := failed || guids[place];
                    codes := codes || code;
                    reasons := reasons || reason;
            end;
        end loop;
        exit when cardinality(later) = 0 or cardinality(later) = cardinality(left_over);
        left_over := later;
    end loop;
    if is_final then
        perform msrepl.merge_record_failure(artid, guids[l.place], gones[l.place], rows[l.place], codes[l.n], reasons[l.n], true)
        from unnest(later) with ordinality as l(place, n);
    end if;
end
$msrepl$;
alter function msrepl.merge_apply(uuid, uuid[], boolean[], text[], text[], int8[], text[], boolean, text[]) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_apply(uuid, uuid[], boolean[], text[], text[], int8[], text[], boolean, text[]) from public;
comment on function msrepl.merge_apply(uuid, uuid[], boolean[], text[], text[], int8[], text[], boolean, text[])
    is 'Applies rows that a neighbour has sent';

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

-- msrepl.merge_refuse_change: refuses a change of an application to a table that is changed at the Publisher alone.
-- called by: BEFORE triggers of articles at Subscribers that may not change them
-- tables:    none
-- holes:     owner
--
-- What an agent writes passes; what a trigger of the user's does then is at a deeper level, and is refused like
-- others.
create or replace function msrepl.merge_refuse_change() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if pg_trigger_depth() = 1 and current_setting('session_replication_role') = 'replica' then
        return case tg_op when 'DELETE' then old else new end;
    end if;
    raise exception 'table %.% is changed at the Publisher alone (20063)', tg_table_schema, tg_table_name
        using errcode = 'object_not_in_prerequisite_state',
              hint = 'Change the row at the Publisher, and wait for the next session.';
end
$msrepl$;
alter function msrepl.merge_refuse_change() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_refuse_change() from public;
comment on function msrepl.merge_refuse_change() is 'Refuses changes to a table that is changed at the Publisher alone';

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

-- msrepl.merge_refuse_uninitialised: refuses changes of a table of which not all files have been delivered (20092).
-- called by: BEFORE STATEMENT triggers of tables that are being initialised
-- tables:    none
-- holes:     owner
create or replace function msrepl.merge_refuse_uninitialised() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    raise exception 'table %.% is being initialised, and cannot be changed yet (20092)', tg_table_schema, tg_table_name
        using errcode = 'object_not_in_prerequisite_state',
              hint = 'Subscribe again: the delivery of the snapshot goes on at the next file.';
end
$msrepl$;
alter function msrepl.merge_refuse_uninitialised() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_refuse_uninitialised() from public;
comment on function msrepl.merge_refuse_uninitialised() is 'Refuses changes of a table that is being initialised';

-- msrepl.mssnapshotdeliveryprogress: the files of a snapshot that this database has, while it is being initialised.
-- called by: twopc.sim.merge.delivery
-- tables:    itself
-- holes:     owner
--
-- A row is written in the commit of what the file holds. The session is the snapshot: another has another token.
create table if not exists msrepl.mssnapshotdeliveryprogress (
    session_token text,
    progress_token text,
    progress_timestamp timestamptz not null default clock_timestamp(),
    primary key (session_token, progress_token)
);
alter table msrepl.mssnapshotdeliveryprogress owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.mssnapshotdeliveryprogress from public;
comment on table msrepl.mssnapshotdeliveryprogress is 'Files of a snapshot that have been delivered here';

-- msrepl.msmerge_dynamic_snapshots: the snapshots in files that there are of this database's publication.
-- called by: twopc.drivers.merge.snapshots
-- tables:    itself
-- holes:     owner
--
-- digest is the SHA-256 of the manifest, which has those of all files: a folder is used only if its manifest is one of
-- these, wherever it was carried. partition_id is NULL if the publication is not filtered. initiated_by is the
-- Subscriber for which it was made; NULL: an administrator has made it.
create table if not exists msrepl.msmerge_dynamic_snapshots (
    digest text primary key,
    partition_id integer,
    dynamic_snapshot_location text not null,
    generation int8 not null,
    guidsrc uuid not null,
    initiated_by text,
    last_updated timestamptz not null default clock_timestamp()
);
alter table msrepl.msmerge_dynamic_snapshots owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_dynamic_snapshots from public;
comment on table msrepl.msmerge_dynamic_snapshots is 'Snapshots in files, by the digests of their manifests';

-- msrepl.msmerge_replinfo: how far this node is with each neighbour.
-- called by: administrators
-- tables:    msrepl.sysmergesubscriptions
-- holes:     owner
create or replace view msrepl.msmerge_replinfo as
select s.subscriber_server as subscriber, s.replnickname, s.sentgen, s.sentguid, s.recgen, s.recguid, s.subscriber_type, s.last_sync_date
from msrepl.sysmergesubscriptions as s
where s.login is not null;
alter view msrepl.msmerge_replinfo owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_replinfo from public;
comment on view msrepl.msmerge_replinfo is 'A row for each neighbour, with the generations sent and received';

-- msrepl.msmerge_history: what came of each session, in words.
-- called by: administrators
-- tables:    msrepl.msmerge_sessions
-- holes:     owner
create or replace view msrepl.msmerge_history as
select m.session_id, m.subscriber_server as subscriber, m.start_time, m.end_time as "time", m.duration, m.runstatus,
       coalesce(m.error, format('uploaded %s, downloaded %s, %s conflicts, %s deferred, %s retried',
                                m.upload_rows, m.download_rows, m.conflicts, m.rows_deferred, m.rows_retried)) as comments
from msrepl.msmerge_sessions as m;
alter view msrepl.msmerge_history owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_history from public;
comment on view msrepl.msmerge_history is 'Sessions that have ended here, in words';

-- msrepl.msrepl_errors: why sessions have ended early.
-- called by: administrators
-- tables:    msrepl.msmerge_sessions
-- holes:     owner
create or replace view msrepl.msrepl_errors as
select m.session_id as id, m.end_time as "time", m.subscriber_server as source_name, m.error as error_text
from msrepl.msmerge_sessions as m
where m.error is not null;
alter view msrepl.msrepl_errors owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msrepl_errors from public;
comment on view msrepl.msrepl_errors is 'Failures of merge agents';

-- msrepl.sysmergepartitioninfoview: all articles, each with its filter if there is one.
-- called by: administrators
-- tables:    msrepl.sysmergearticles, msrepl.sysmergepartitioninfo
-- holes:     owner
create or replace view msrepl.sysmergepartitioninfoview as
select a.artid, a.nickname, a.objid, a.source_schema, a.source_object, a.rowguid, a.publication, i.subset_filterclause,
       i.use_partition_groups, i.filters_on_time, coalesce(i.partition_options, 0::smallint) as partition_options,
       coalesce(i.allow_partition_realignment, true) as allow_partition_realignment
from msrepl.sysmergearticles as a left join msrepl.sysmergepartitioninfo as i on i.artid = a.artid;
alter view msrepl.sysmergepartitioninfoview owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.sysmergepartitioninfoview from public;
comment on view msrepl.sysmergepartitioninfoview is 'Articles, with what is known of their partitions';

-- msrepl.msdynamicsnapshotjobs: the runs of the Snapshot Agent whose snapshots there are.
-- called by: administrators
-- tables:    msrepl.msmerge_dynamic_snapshots, msrepl.msmerge_partition_groups, msrepl.sysmergepublications, msrepl.sysmergesubscriptions
-- holes:     owner
create or replace view msrepl.msdynamicsnapshotjobs as
select concat_ws('-', s.subscriber_server, current_database(), p.name, d.partition_id) as name, p.name as publication,
       g.host_name_fn as dynamic_filter_hostname, g.suser_sname_fn as dynamic_filter_login, d.partition_id,
       d.dynamic_snapshot_location, d.initiated_by, d.last_updated
from msrepl.msmerge_dynamic_snapshots as d
cross join msrepl.sysmergepublications as p
join msrepl.sysmergesubscriptions as s on s.is_self
left join msrepl.msmerge_partition_groups as g on g.partition_id = d.partition_id;
alter view msrepl.msdynamicsnapshotjobs owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msdynamicsnapshotjobs from public;
comment on view msrepl.msdynamicsnapshotjobs is 'Runs of the Snapshot Agent, by Publisher, database, publication and partition';

-- msrepl.msmerge_errorlineage: rows that were deleted at a Subscriber, and could not be deleted at its Publisher.
-- called by: administrators
-- tables:    msrepl.msmerge_conflicts_info, msrepl.msmerge_metadata, msrepl.msmerge_replica
-- holes:     owner
create or replace view msrepl.msmerge_errorlineage as
select c.tablenick, c.rowguid, msrepl.merge_lineage(m.lineage, r.replica, m.own) as lineage
from msrepl.msmerge_conflicts_info as c
left join msrepl.msmerge_metadata as m on m.tablenick = c.tablenick and m.rowguid = c.rowguid
cross join msrepl.msmerge_replica as r
where c.conflict_type = 7 and m.gone is not true;
alter view msrepl.msmerge_errorlineage owner to "msrepl_owner_0123456789ab";
revoke all on msrepl.msmerge_errorlineage from public;
comment on view msrepl.msmerge_errorlineage is 'Deletions that were not carried on';

-- msrepl.merge_faults: what has become of merged tables that sessions cannot go on with, and what mends each.
-- called by: msrepl.merge_hello; twopc.drivers.merge.checks
-- tables:    msrepl.sysmergearticles, msrepl.sysmergesubscriptions, msrepl.msmerge_identity_range, catalogs
-- holes:     owner
--
-- Changes would go unrecorded, agents would break foreign keys, or rows would not fit. Types are those that the article's row type
-- was made of. Which tracking triggers a table has hangs on the article's options; those of keys are enabled ALWAYS,
-- unless checked_keys is NULL.
create or replace function msrepl.merge_faults() returns table (artid uuid, name text, what text, remedy text)
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    with tracked as (
        select a.*, replace(a.artid::text, '-', '') as hex, c.relrowsecurity, n.nspname, c.relname,
               format('%I.%I', n.nspname, c.relname) as here,
               case when (select s.subscriber_type from msrepl.sysmergesubscriptions as s where s.is_self) = 2
                   then a.upload_options else 'normal' end as upload,
               to_regprocedure(format('msrepl.msmerge_guard_%s()', replace(a.artid::text, '-', ''))) is not null as is_guarded
        from msrepl.sysmergearticles as a
        left join pg_class as c on c.oid = a.objid
        left join pg_namespace as n on n.oid = c.relnamespace
    )
    select t.artid, case t.source_schema when 'public' then '' else t.source_schema || '.' end || t.source_object, f.what, f.remedy
    from tracked as t
    cross join lateral (
        select 1, 'was dropped', 'unsubscribe every Subscriber, unpublish the table, and publish it again'
        where t.relname is null
        union all
        select 2, format('was moved to schema %I', t.nspname), format('alter table %s set schema %I', t.here, t.source_schema)
        where t.nspname <> t.source_schema
        union all
        select 2, format('was renamed to %I', t.relname), format('alter table %s rename to %I', t.here, t.source_object)
        where t.relname <> t.source_object
        union all
        select 2, format('has become a part of %s', i.inhparent::regclass),
               case when p.relkind = 'p' then format('alter table %s detach partition %s', i.inhparent::regclass, t.here)
                    else format('alter table %s no inherit %s', t.here, i.inhparent::regclass) end
        from pg_inherits as i join pg_class as p on p.oid = i.inhparent where i.inhrelid = t.objid
        union all
        select 2, format('has a child %s, whose rows are not merged', i.inhrelid::regclass),
               format('alter table %s no inherit %s', i.inhrelid::regclass, t.here)
        from pg_inherits as i where i.inhparent = t.objid
        union all
        select 2, 'has row security, which hides rows from sessions', format('alter table %s disable row level security', t.here)
        where t.relrowsecurity
        union all
        select 2, format('has lost its column %I', w.name),
               'rename it back; if it was dropped, unsubscribe every Subscriber, unpublish the table, and publish it again'
        from unnest(t.columns || t.rowguid) as w(name)
        where t.relname is not null and not exists (
            select from pg_attribute as b where b.attrelid = t.objid and b.attname = w.name and not b.attisdropped)
        union all
        select 2, format('has another type in column %I: %s', w.name, format_type(b.atttypid, b.atttypmod)),
               format('alter table %s alter column %I type %s; or unsubscribe every Subscriber, unpublish the table, and publish it again',
                      t.here, w.name, format_type(r.atttypid, r.atttypmod))
        from unnest(t.columns, t.column_numbers) as w(name, number)
        join pg_attribute as b on b.attrelid = t.objid and b.attname = w.name and not b.attisdropped
        join pg_type as y on y.typnamespace = 'msrepl'::regnamespace and y.typname = 'msmerge_row_' || t.hex
        join pg_attribute as r on r.attrelid = y.typrelid and r.attname = 'n' || w.number
        where b.atttypid <> r.atttypid
        union all
        select 3, format('%s: trigger %I is %s', w.missed, 'msmerge_' || w.kind || '_' || t.hex,
                         case when g.oid is null then 'missing' else 'not enabled ALWAYS' end),
               case when g.oid is null then 'unsubscribe every Subscriber, unpublish the table, and publish it again'
                    else 'twopc merge regenerate, then validate every Subscriber, since changes may have been missed' end
        from (values ('ins', 'misses inserts', t.upload = 'normal'), ('upd', 'misses updates', t.upload = 'normal'),
                     ('del', 'misses deletions', t.upload = 'normal' and t.delete_tracking),
                     ('ref', 'takes changes that are refused', t.upload = 'refused'),
                     ('guard_ins', 'takes inserts outside the partition', t.is_guarded),
                     ('guard_upd', 'takes updates that leave the partition', t.is_guarded),
                     ('idn', 'gives no identity values', t.identity_column is not null and t.created_table),
                     ('idc', 'takes inserts with identity values of other nodes', t.identity_column is not null),
                     ('idu', 'takes updates to identity values of other nodes', t.identity_column is not null),
                     ('guid', 'takes updates of the column by which rows are known', true)) as w(kind, missed, is_due)
        left join pg_trigger as g on g.tgrelid = t.objid and g.tgname = 'msmerge_' || w.kind || '_' || t.hex
        where w.is_due and t.relname is not null and g.tgenabled is distinct from 'A'
        union all
        select 2, format('has lost the sequence of its column %I', t.identity_column),
               'unsubscribe every Subscriber, unpublish the table, give the column a sequence, and publish the table again'
        where t.identity_column is not null and not exists (select from pg_sequence as q where q.seqrelid = t.identity_sequence)
        union all
        select 2, format('has sequence %s, which counts otherwise than when it was published', q.seqrelid::regclass),
               format('alter sequence %s increment %s no cycle', q.seqrelid::regclass, t.identity_step)
        from pg_sequence as q
        where q.seqrelid = t.identity_sequence and not t.created_table and (q.seqincrement <> t.identity_step or q.seqcycle)
        union all
        select 2, format('has sequence %s at %s, and values to %s were allotted', q.seqrelid::regclass, d.last, r.last),
               format('select setval(%L, %s)', q.seqrelid::regclass, r.last)
        from pg_sequence as q
        cross join lateral (select coalesce(pg_sequence_last_value(q.seqrelid), q.seqstart - q.seqincrement) as last) as d
        cross join lateral (
            select max(r.range_end) as last from msrepl.msmerge_identity_range as r
            where r.artid = t.artid and r.place_end is null) as r
        where q.seqrelid = t.identity_sequence and not t.created_table and d.last < r.last
        union all
        select case when w.acts then 2 else 3 end,
               format('has key %I%s, which %s', k.conname, ' of ' || nullif(k.conrelid, t.objid)::regclass, case
                   when w.acts then 'changes rows by itself'
                   else 'is not checked for agents: a trigger of it is not enabled ALWAYS' end),
               case when w.acts then format('alter table %s drop constraint %I; add the key again with NO ACTION or RESTRICT; '
                   'twopc merge regenerate', k.conrelid::regclass, k.conname) else 'twopc merge regenerate' end
        from pg_trigger as g join pg_constraint as k on k.oid = g.tgconstraint and k.contype in ('f', 'p', 'u', 'x')
        cross join lateral (select k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd') as acts) as w
        where g.tgrelid = t.objid and g.tgisinternal and (w.acts or g.tgenabled <> 'A' and t.checked_keys is not null)
        group by k.conname, k.conrelid, w.acts
        union all
        select 2, format('has no validated foreign key to %s any more, by which its partitions are worked out', (
                   select a.source_object from msrepl.sysmergearticles as a where a.artid = j.join_articleid)),
               'unsubscribe every Subscriber, unpublish the table, and publish it again'
        from msrepl.sysmergesubsetfilters as j
        where j.artid = t.artid and j.join_unique_key and not exists (
            select from pg_constraint as k join msrepl.sysmergearticles as a on a.objid = k.confrelid
            where k.conrelid = t.objid and k.contype = 'f' and k.convalidated and a.artid = j.join_articleid)
        union all
        select 3, format('takes TRUNCATE: trigger %I is disabled', g.tgname), 'twopc merge regenerate'
        from pg_trigger as g
        where g.tgrelid = t.objid and g.tgfoid = 'msrepl.refuse_truncate()'::regprocedure and g.tgenabled = 'D'
    ) as f(weight, what, remedy)
    order by f.weight, t.nickname, f.what
$msrepl$;
alter function msrepl.merge_faults() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.merge_faults() from public;
comment on function msrepl.merge_faults() is 'What has become of merged tables that sessions cannot go on with';
