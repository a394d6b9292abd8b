-- msrepl.mspublisher_databases: the Publisher databases whose changes this distribution database holds.
-- called by: twopc.publisher.distribution; the log reader, which moves read_to with every store; agents; twopc.sim.spark
-- tables:    itself
-- holes:     none
--
-- publisher    the Publisher's node name
-- read_to      commit LSN of the last stored transaction: what is read again up to here is dropped
-- last_commit  when that transaction was committed
-- read_at      when something was stored last
-- horizon      the highest id of a transaction whose changes are stored, or may be; 0: not known
-- removed_to   commit LSN of the last transaction that clean-up has removed
-- identity     made when it was entered here, and never again: what was taken from it is known by that
-- registry_version  counts the changes to its articles and originators
-- open_seqno   commit LSN of a large transaction of which parts are stored, and the last one is not; NULL: of none
-- open_xid, open_originator  what msrepl_transactions will have of it; the originator may still change
-- open_pid     the process that stores it
-- open_count   counts how often parts that were stored were removed or changed
create table if not exists msrepl.mspublisher_databases (
    id integer generated always as identity primary key,
    publisher text not null unique,
    publisher_db text not null,
    slot text not null,
    read_to pg_lsn not null default '0/0',
    last_commit timestamptz,
    read_at timestamptz,
    last_error text,
    registry_version bigint not null default 0,
    removed_to pg_lsn not null default '0/0',
    horizon xid8 not null default '0',
    identity uuid not null default gen_random_uuid(),
    open_seqno pg_lsn,
    open_xid xid8,
    open_originator integer,
    open_pid integer,
    open_count bigint not null default 0
);
do $msrepl$
begin
    -- one of an earlier version; the lock is taken only then
    if not exists (select from pg_attribute
                   where attrelid = 'msrepl.mspublisher_databases'::regclass and attname = 'removed_to') then
        alter table msrepl.mspublisher_databases add column removed_to pg_lsn not null default '0/0';
    end if;
    if not exists (select from pg_attribute
                   where attrelid = 'msrepl.mspublisher_databases'::regclass and attname = 'horizon') then
        alter table msrepl.mspublisher_databases add column horizon xid8 not null default '0';
    end if;
    if not exists (select from pg_attribute
                   where attrelid = 'msrepl.mspublisher_databases'::regclass and attname = 'identity') then
        alter table msrepl.mspublisher_databases add column identity uuid not null default gen_random_uuid();
    end if;
    if not exists (select from pg_attribute
                   where attrelid = 'msrepl.mspublisher_databases'::regclass and attname = 'open_seqno') then
        alter table msrepl.mspublisher_databases add column open_seqno pg_lsn, add column open_xid xid8,
            add column open_originator integer, add column open_pid integer,
            add column open_count bigint not null default 0;
    end if;
end
$msrepl$;
comment on table msrepl.mspublisher_databases is 'Publisher databases, and how far the log of each has been read';

-- msrepl.msrepl_originators: where a change may come from: the Subscribers with immediate updating.
-- called by: twopc.publisher.distribution; the log reader and agents, which look for themselves
-- tables:    itself
-- holes:     none
--
-- srvname    the Subscriber's node name
-- dbname     its database
-- link_role  under which its link works at the Publisher: what a branch marker holds as originator
create table if not exists msrepl.msrepl_originators (
    id integer generated always as identity primary key,
    publisher_database_id integer not null references msrepl.mspublisher_databases on delete cascade,
    srvname text not null,
    dbname text not null,
    link_role text not null,
    unique (publisher_database_id, srvname),
    unique (publisher_database_id, link_role)
);
comment on table msrepl.msrepl_originators is 'Subscribers as originators of changes';

-- msrepl.msarticles: the articles of each Publisher database, as their commands are made and read.
-- called by: twopc.publisher.distribution
-- tables:    itself
-- holes:     none
--
-- columns      array of name, type, oid …: the columns that travel, in the order of a command's values
-- key          names of the key's columns, in the key's order
-- left_out     columns of the table that the log holds and that are not published
-- generated    generated columns of the table, which the log may hold and which do not travel
-- propagation  formats and custom procedures by operation (twopc.propagation.Propagation.as_json)
-- procedures   names of the default procedures at the Subscribers, by operation: ins, upd, del
-- kind         table; proc: a routine of which calls are stored, and under a second number (10,000,000 higher)
--              definitions
-- proc         of a routine: twopc.proc_execution.ProcArticle.as_json, without its definition
-- calls        of a routine: its calls are stored, not only the rows that they change
create table if not exists msrepl.msarticles (
    publisher_database_id integer not null references msrepl.mspublisher_databases on delete cascade,
    article_id integer not null check (article_id > 0),
    source_schema text not null,
    source_object text not null,
    columns jsonb not null,
    key text[] not null,
    left_out text[] not null default array[]::text[],
    generated text[] not null default array[]::text[],
    filter_clause text,
    propagation jsonb not null,
    procedures jsonb not null,
    kind text not null default 'table' check (kind in ('table', 'proc')),
    proc jsonb,
    calls boolean not null default false,
    primary key (publisher_database_id, article_id)
);
do $msrepl$
begin
    -- one of an earlier version; the lock is taken only then
    if not exists (select from pg_attribute
                   where attrelid = 'msrepl.msarticles'::regclass and attname = 'kind') then
        alter table msrepl.msarticles
            add column kind text not null default 'table' check (kind in ('table', 'proc')),
            add column proc jsonb, add column calls boolean not null default false;
    end if;
end
$msrepl$;
comment on table msrepl.msarticles is 'Articles, as their commands are made and read';

-- msrepl.msarticle_shapes: what each article was like, and from where on: by it stored commands can be read
--                          after the article has changed.
-- called by: article_shaped; twopc.sim.spark
-- tables:    itself
-- holes:     none
--
-- shape  counts from 1; of two with the same `after` the later one holds
-- after  commands of transactions behind it have this shape, until the next one's
-- source_schema … propagation  as in msarticles
create table if not exists msrepl.msarticle_shapes (
    publisher_database_id integer not null references msrepl.mspublisher_databases on delete cascade,
    article_id integer not null,
    shape integer not null,
    after pg_lsn not null,
    source_schema text not null,
    source_object text not null,
    columns jsonb not null,
    key text[] not null,
    filter_clause text,
    propagation jsonb not null,
    primary key (publisher_database_id, article_id, shape)
);
comment on table msrepl.msarticle_shapes is 'What each article was like, and from where on';

-- msrepl.mssubscriptions: which article goes to which Subscriber, and from where on.
-- called by: twopc.publisher.distribution; agents, which read their own
-- tables:    itself
-- holes:     none
--
-- status              0 inactive, 1 subscribed (not copied yet), 2 active
-- subscription_seqno  commands of transactions up to here are not for this subscription; NULL: not known yet
-- copy_snapshot       what the initial copy has seen, and copy_seqno where the log stood after it: of the
-- copy_seqno          transactions between the two positions those that the snapshot sees are in the copy
-- update_mode         sync tran: it changes its copy too (immediate updating); read only: agents alone do
create table if not exists msrepl.mssubscriptions (
    publisher_database_id integer not null,
    article_id integer not null,
    subscriber text not null,
    originator_id integer references msrepl.msrepl_originators,
    status smallint not null default 1 check (status in (0, 1, 2)),
    sync_type text not null default 'automatic',
    loopback_detection boolean not null default true,
    subscription_seqno pg_lsn,
    copy_snapshot pg_snapshot,
    copy_seqno pg_lsn,
    update_mode text not null default 'sync tran' check (update_mode in ('sync tran', 'read only')),
    primary key (publisher_database_id, article_id, subscriber),
    foreign key (publisher_database_id, article_id) references msrepl.msarticles
);
do $msrepl$
begin
    -- one of an earlier version; the lock is taken only then
    if not exists (select from pg_attribute
                   where attrelid = 'msrepl.mssubscriptions'::regclass and attname = 'update_mode') then
        alter table msrepl.mssubscriptions add column update_mode text not null default 'sync tran'
            check (update_mode in ('sync tran', 'read only'));
    end if;
end
$msrepl$;
comment on table msrepl.mssubscriptions is 'Which article goes to which Subscriber, and from where on';

-- msrepl.msdistribution_agents: how far each Subscriber's agent has come, as it said last.
-- called by: twopc.publisher.distribution; agents, which update their own row
-- tables:    itself
-- holes:     none
--
-- The position in the Subscriber's own database is the true one and may be ahead of delivered, never behind
-- it: clean-up keeps what is after delivered. profile holds what differs from an agent's usual settings.
create table if not exists msrepl.msdistribution_agents (
    publisher_database_id integer not null references msrepl.mspublisher_databases on delete cascade,
    subscriber text not null,
    delivered pg_lsn not null default '0/0',
    delivered_at timestamptz,
    runstatus text not null default 'never started',
    runstatus_at timestamptz,
    last_error text,
    profile jsonb not null default '{}',
    primary key (publisher_database_id, subscriber)
);
do $msrepl$
begin
    -- one of an earlier version; the lock is taken only then
    if not exists (select from pg_attribute
                   where attrelid = 'msrepl.msdistribution_agents'::regclass and attname = 'profile') then
        alter table msrepl.msdistribution_agents add column profile jsonb not null default '{}';
    end if;
end
$msrepl$;
comment on table msrepl.msdistribution_agents is 'How far each Subscriber''s agent has come, as it said last';

-- msrepl.mssubscription_positions: what each subscription waits for: everything after its position.
-- called by: twopc.publisher.distribution (clean_up)
-- tables:    msrepl.mssubscriptions, msrepl.msdistribution_agents
-- holes:     none
--
-- A subscription whose copy is not made yet waits for everything there is, unless it is known from where on.
-- Inactive ones wait for nothing.
create or replace view msrepl.mssubscription_positions as
select s.publisher_database_id, s.article_id, s.subscriber,
       case when s.status = 1 and s.subscription_seqno is null then '0/0'::pg_lsn
            else greatest(a.delivered, s.subscription_seqno) end as position
from msrepl.mssubscriptions as s
join msrepl.msdistribution_agents as a using (publisher_database_id, subscriber)
where s.status > 0;
comment on view msrepl.mssubscription_positions is 'What each subscription waits for: everything after its position';

-- msrepl.msrepl_blocks: transactions and their commands, many of them in one row.
-- called by: the log reader, which copies them in; agents; twopc.publisher.distribution (browse, clean_up, status)
-- tables:    itself
-- holes:     none
--
-- A row for each would cost more than everything else between the log and the Subscribers; so arrays stand for
-- rows, and msrepl_transactions and msrepl_commands show them as such. A block has whole transactions, or a
-- part of one that is too large for one block; that transaction stands in its last part.
--
-- first_seqno, last_seqno  commit LSNs of its first and last transaction
-- part                     counts the parts of one transaction, from 0
-- transactions, commands   how many there are in its arrays
-- last_command             number of its last command in the last transaction
-- seqnos … lengths         of transactions, see msrepl_transactions; originator 0 is NULL there
-- command_seqnos … texts   of commands, see msrepl_commands; a code is the article's number * 100 + type
create table if not exists msrepl.msrepl_blocks (
    publisher_database_id integer not null,
    first_seqno pg_lsn not null,
    last_seqno pg_lsn not null,
    part integer not null,
    transactions integer not null,
    commands integer not null,
    last_command integer not null,
    -- compressing them would cost more than writing them
    seqnos pg_lsn[] storage external not null,
    xids xid8[] storage external not null,
    entry_times timestamptz[] storage external not null,
    originators integer[] storage external not null,
    marks integer[] storage external not null,
    counts integer[] storage external not null,
    lengths bigint[] storage external not null,
    command_seqnos pg_lsn[] storage external not null,
    command_ids integer[] storage external not null,
    codes integer[] storage external not null,
    command_originators integer[] storage external not null,
    hashkeys integer[] storage external not null,
    texts text[] storage external not null,
    primary key (publisher_database_id, last_seqno, part)
);
comment on table msrepl.msrepl_blocks is 'Transactions to distribute and their commands, in blocks';

-- msrepl.transactions_between: the transactions after a position up to another, from as few blocks as can be.
-- called by: twopc.publisher.distribution; agents; twopc.sim.topology
-- tables:    msrepl.msrepl_blocks
-- holes:     none
create or replace function msrepl.transactions_between(publisher integer, after pg_lsn, upto pg_lsn)
returns table (
    xact_seqno pg_lsn, xact_id xid8, entry_time timestamptz, originator_id integer, marks integer,
    commands integer, bytes bigint
)
language sql stable
begin atomic
    select t.seqno, t.xid, t.entry_time, nullif(t.originator, 0), t.marks, t.commands, t.length
    from msrepl.msrepl_blocks b
    cross join lateral unnest(b.seqnos, b.xids, b.entry_times, b.originators, b.marks, b.counts, b.lengths)
        as t (seqno, xid, entry_time, originator, marks, commands, length)
    where b.publisher_database_id = publisher and b.last_seqno > after and b.first_seqno <= upto
        -- said of the index's column too, which does not know that both rise together
        and b.last_seqno <= coalesce(
            (select min(n.last_seqno) from msrepl.msrepl_blocks n
             where n.publisher_database_id = publisher and n.last_seqno >= upto),
            upto)
        and t.seqno > after and t.seqno <= upto;
end;
revoke all on function msrepl.transactions_between(integer, pg_lsn, pg_lsn) from public;
comment on function msrepl.transactions_between(integer, pg_lsn, pg_lsn)
    is 'The transactions after a position up to another';

-- msrepl.commands_between: the commands after a position up to another, from as few blocks as can be.
-- called by: twopc.publisher.distribution; agents; twopc.sim.topology
-- tables:    msrepl.msrepl_blocks
-- holes:     none
create or replace function msrepl.commands_between(publisher integer, after pg_lsn, upto pg_lsn)
returns table (
    xact_seqno pg_lsn, command_id integer, article_id integer, type integer, originator_id integer,
    hashkey integer, command text
)
language sql stable
begin atomic
    select c.seqno, c.command_id, c.code / 100, c.code % 100, nullif(c.originator, 0), c.hashkey, c.command
    from msrepl.msrepl_blocks b
    cross join lateral unnest(
        b.command_seqnos, b.command_ids, b.codes, b.command_originators, b.hashkeys, b.texts)
        as c (seqno, command_id, code, originator, hashkey, command)
    where b.publisher_database_id = publisher and b.last_seqno > after and b.first_seqno <= upto
        -- said of the index's column too, which does not know that both rise together
        and b.last_seqno <= coalesce(
            (select min(n.last_seqno) from msrepl.msrepl_blocks n
             where n.publisher_database_id = publisher and n.last_seqno >= upto),
            upto)
        and c.seqno > after and c.seqno <= upto;
end;
revoke all on function msrepl.commands_between(integer, pg_lsn, pg_lsn) from public;
comment on function msrepl.commands_between(integer, pg_lsn, pg_lsn)
    is 'The commands after a position up to another';

-- msrepl.msrepl_transactions: the transactions to distribute, in the order of their commits.
-- called by: people; twopc.sim.topology; twopc.publisher.distribution
-- tables:    msrepl.msrepl_blocks
-- holes:     none
--
-- xact_seqno     commit LSN: their order
-- xact_id        transaction id at the Publisher
-- entry_time     when it was committed there
-- originator_id  the Subscriber that it came from; NULL: the Publisher itself
-- marks          how many different originators had marked it (the last one counts)
-- commands       how many commands it has
-- bytes          how long their texts are together: what an agent must hold of it at once
create or replace view msrepl.msrepl_transactions as
select b.publisher_database_id, t.seqno as xact_seqno, t.xid as xact_id, t.entry_time,
    nullif(t.originator, 0) as originator_id, t.marks, t.commands, t.length as bytes
from msrepl.msrepl_blocks b
cross join lateral unnest(b.seqnos, b.xids, b.entry_times, b.originators, b.marks, b.counts, b.lengths)
    as t (seqno, xid, entry_time, originator, marks, commands, length);
comment on view msrepl.msrepl_transactions is 'Transactions to distribute, in the order of their commits';

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

-- msrepl.msrepl_commands: what each transaction does, a command per article and row.
-- called by: people; tests
-- tables:    msrepl.msrepl_blocks, msrepl.mspublisher_databases
-- holes:     none
--
-- command_id  counts from 1 in its transaction
-- article_id  0: for every Subscriber
-- type        twopc.propagation.CommandType
-- hashkey     by which commands are spread over streams: 0 the first stream only, else by the (old) key
-- command     a call's parameters as text of a row, a statement, or JSON
create or replace view msrepl.msrepl_commands as
select b.publisher_database_id, c.seqno as xact_seqno, c.command_id, c.code / 100 as article_id,
    c.code % 100 as type, nullif(c.originator, 0) as originator_id, c.hashkey, c.command
from msrepl.msrepl_blocks b
-- without the parts of a transaction that is being stored
join msrepl.mspublisher_databases d on d.id = b.publisher_database_id and b.last_seqno is distinct from d.open_seqno
cross join lateral unnest(
    b.command_seqnos, b.command_ids, b.codes, b.command_originators, b.hashkeys, b.texts)
    as c (seqno, command_id, code, originator, hashkey, command);
comment on view msrepl.msrepl_commands is 'What each transaction does, a command per article and row';

-- msrepl.msdistribution_history: what the log reader and the agents did, a row per event.
-- called by: the log reader, agents, twopc.publisher.distribution
-- tables:    itself
-- holes:     none
--
-- subscriber   whose agent it is; NULL: the log reader, or clean-up
-- event        started, progress, succeeded, retry, failed, skipped, net, serial, rows, validated, repaired,
--              removed, deactivated
-- error        the original's number, or a SQLSTATE
-- xact_seqno   the transaction it is about, or the last one of those counted
create table if not exists msrepl.msdistribution_history (
    id bigint generated always as identity primary key,
    publisher_database_id integer not null references msrepl.mspublisher_databases on delete cascade,
    subscriber text,
    event text not null,
    at timestamptz not null default clock_timestamp(),
    duration_ms double precision,
    transactions bigint,
    commands bigint,
    xact_seqno pg_lsn,
    error text,
    message text,
    command text
);
create index if not exists msdistribution_history_by_agent
    on msrepl.msdistribution_history (publisher_database_id, subscriber, id);
comment on table msrepl.msdistribution_history is 'What the log reader and the agents did';

-- msrepl.mstracer_tokens, msrepl.mstracer_history: when a tracer token passed each station.
-- called by: the log reader, agents; whoever shows latencies
-- tables:    themselves
-- holes:     none
--
-- distributor_commit, subscriber_commit  NULL, or no row: it has not come that far
create table if not exists msrepl.mstracer_tokens (
    publisher_database_id integer not null references msrepl.mspublisher_databases on delete cascade,
    tracer_id bigint not null,
    publisher_commit timestamptz,
    distributor_commit timestamptz,
    primary key (publisher_database_id, tracer_id)
);
create table if not exists msrepl.mstracer_history (
    publisher_database_id integer not null references msrepl.mspublisher_databases on delete cascade,
    tracer_id bigint not null,
    subscriber text not null,
    subscriber_commit timestamptz,
    primary key (publisher_database_id, tracer_id, subscriber)
);
comment on table msrepl.mstracer_tokens is 'Tracer tokens: when each was committed at the Publisher and stored here';
comment on table msrepl.mstracer_history is 'Tracer tokens: when each was delivered to a Subscriber';

-- msrepl.registry_changed: counts the changes to a Publisher's articles and originators, so that the log
--                          reader, which keeps them, notices.
-- called by: its triggers on msarticles, msrepl_originators and mssubscriptions
-- tables:    msrepl.mspublisher_databases, msrepl.msarticles
-- holes:     none
--
-- Whoever changes them and the log reader that stores a batch lock the same row: a batch is stored either
-- before the change, or made of what is there after it. Who subscribes, and from where on, means something
-- to the log reader only where calls of routines are stored.
create or replace function msrepl.registry_changed() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if tg_table_name = 'mssubscriptions' and not exists (
        select from msrepl.msarticles a
        where a.publisher_database_id = coalesce(new.publisher_database_id, old.publisher_database_id)
          and a.kind = 'proc'
    ) then
        return null;
    end if;
    update msrepl.mspublisher_databases
    set registry_version = registry_version + 1
    where id = coalesce(new.publisher_database_id, old.publisher_database_id);
    return null;
end
$msrepl$;
revoke all on function msrepl.registry_changed() from public;
comment on function msrepl.registry_changed() is 'Counts the changes to a Publisher''s articles, originators and, where calls are stored, subscriptions';
create or replace trigger registry_changed after insert or update or delete on msrepl.msarticles
    for each row execute function msrepl.registry_changed();
create or replace trigger registry_changed after insert or update or delete on msrepl.msrepl_originators
    for each row execute function msrepl.registry_changed();
create or replace trigger registry_changed after insert or delete on msrepl.mssubscriptions
    for each row execute function msrepl.registry_changed();
create or replace trigger registry_changed_update
    after update of status, copy_seqno, update_mode on msrepl.mssubscriptions for each row
    when ((old.status, old.copy_seqno, old.update_mode) is distinct from (new.status, new.copy_seqno, new.update_mode))
    execute function msrepl.registry_changed();

-- msrepl.article_shaped: notes what an article is like, whenever that is another thing than before.
-- called by: its trigger on msarticles
-- tables:    msrepl.mspublisher_databases, msrepl.msarticle_shapes
-- holes:     none
--
-- The log reader's store locks the same row and fails if an article has changed since: what is stored up to
-- read_to was made of the article as it was, and everything later of what it is now.
create or replace function msrepl.article_shaped() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    reached pg_lsn;
    last msrepl.msarticle_shapes;
begin
    select d.read_to into strict reached
    from msrepl.mspublisher_databases d where d.id = new.publisher_database_id for no key update;
    select * into last from msrepl.msarticle_shapes s
    where s.publisher_database_id = new.publisher_database_id and s.article_id = new.article_id
    order by s.shape desc limit 1;
    if last.shape is null and tg_op = 'UPDATE' then
        -- entered before shapes were noted: it has been like this from the beginning
        insert into msrepl.msarticle_shapes
        values (old.publisher_database_id, old.article_id, 1, '0/0', old.source_schema, old.source_object,
                old.columns, old.key, old.filter_clause, old.propagation)
        returning * into last;
    end if;
    if (last.source_schema, last.source_object, last.columns, last.key, last.filter_clause, last.propagation)
        is distinct from (new.source_schema, new.source_object, new.columns, new.key, new.filter_clause,
                          new.propagation)
    then
        insert into msrepl.msarticle_shapes
        values (new.publisher_database_id, new.article_id, coalesce(last.shape, 0) + 1,
                case when last.shape is null then '0/0' else reached end, new.source_schema,
                new.source_object, new.columns, new.key, new.filter_clause, new.propagation);
    end if;
    return null;
end
$msrepl$;
revoke all on function msrepl.article_shaped() from public;
create or replace trigger article_shaped after insert or update on msrepl.msarticles
    for each row when (new.kind = 'table') execute function msrepl.article_shaped();
comment on function msrepl.article_shaped() is 'Notes what an article is like, whenever that is another thing than before';

-- msrepl.refuse_store: says why a log reader cannot store what it has read.
-- called by: msrepl.log_was_read, msrepl.part_was_read
-- tables:    msrepl.mspublisher_databases
-- holes:     none
create or replace function msrepl.refuse_store(publisher integer, was pg_lsn, version bigint) returns void
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    there msrepl.mspublisher_databases;
begin
    select * into there from msrepl.mspublisher_databases d where d.id = refuse_store.publisher;
    if there.read_to is distinct from was then
        raise exception using
            errcode = 'object_in_use',
            message = format(
                'the log of Publisher %s was read to %s by another log reader (18752): stop one of them',
                coalesce(there.publisher, refuse_store.publisher::text), there.read_to);
    elsif there.registry_version <> version then
        raise exception using
            errcode = 'serialization_failure',
            message = format(
                'articles or originators of Publisher %s were changed while its log was read', there.publisher);
    end if;
    raise exception using
        errcode = 'object_in_use',
        message = format(
            'another log reader stores a transaction of Publisher %s (18752): stop one of them', there.publisher);
end
$msrepl$;
revoke all on function msrepl.refuse_store(integer, pg_lsn, bigint) from public;
comment on function msrepl.refuse_store(integer, pg_lsn, bigint) is 'Says why a log reader cannot store what it has read';

-- msrepl.log_was_read: moves the log reader's mark at the end of each store, and wakes the agents.
-- called by: twopc.publisher.log_reader
-- tables:    msrepl.mspublisher_databases
-- holes:     none
--
-- was, version  what the store was made for; if either is another one meanwhile, the store must not happen
-- read_to       commit LSN of the last transaction stored
-- horizon       the highest id of a transaction that was stored
-- ends_parts    parts of the first transaction were stored before
drop function if exists msrepl.log_was_read(integer, pg_lsn, bigint, pg_lsn, timestamptz);
drop function if exists msrepl.log_was_read(integer, pg_lsn, bigint, pg_lsn, timestamptz, xid8);
create or replace function msrepl.log_was_read(
    publisher integer, was pg_lsn, version bigint, read_to pg_lsn, committed timestamptz,
    horizon xid8, ends_parts boolean
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    name text;
begin
    update msrepl.mspublisher_databases d
    set (read_to, last_commit, read_at, last_error, horizon, open_seqno, open_pid)
      = (log_was_read.read_to, committed, clock_timestamp(), null, greatest(d.horizon, log_was_read.horizon), null, null)
    where d.id = log_was_read.publisher and d.read_to = was and d.registry_version = version
        and case when ends_parts then d.open_pid = pg_backend_pid() else d.open_seqno is null end
    returning d.publisher into name;
    if not found then
        perform msrepl.refuse_store(publisher, was, version);
    end if;
    perform pg_notify('msrepl_distribution', name);
end
$msrepl$;
revoke all on function msrepl.log_was_read(integer, pg_lsn, bigint, pg_lsn, timestamptz, xid8, boolean) from public;
comment on function msrepl.log_was_read(integer, pg_lsn, bigint, pg_lsn, timestamptz, xid8, boolean)
    is 'Moves the log reader''s mark at the end of each store, and wakes the agents';

-- msrepl.part_was_read: says that a part of a large transaction is stored, and wakes the agents, which may begin it.
-- called by: twopc.publisher.log_reader
-- tables:    msrepl.mspublisher_databases
-- holes:     none
--
-- was, version  as for msrepl.log_was_read, which ends the transaction
-- seqno, xid, originator  the transaction's
-- begins        it is the first part
create or replace function msrepl.part_was_read(
    publisher integer, was pg_lsn, version bigint, seqno pg_lsn, xid xid8, originator integer,
    begins boolean
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    name text;
begin
    update msrepl.mspublisher_databases d
    set (open_seqno, open_xid, open_originator, open_pid) = (seqno, xid, originator, pg_backend_pid())
    where d.id = part_was_read.publisher and d.read_to = was and d.registry_version = version
        and case when begins then d.open_seqno is null else (d.open_seqno, d.open_pid) = (seqno, pg_backend_pid()) end
    returning d.publisher into name;
    if not found then
        perform msrepl.refuse_store(publisher, was, version);
    end if;
    perform pg_notify('msrepl_distribution', name);
end
$msrepl$;
revoke all on function msrepl.part_was_read(integer, pg_lsn, bigint, pg_lsn, xid8, integer, boolean) from public;
comment on function msrepl.part_was_read(integer, pg_lsn, bigint, pg_lsn, xid8, integer, boolean)
    is 'Says that a part of a large transaction is stored, and wakes the agents';

-- msrepl.drop_parts: removes the parts of a transaction whose last one a log reader has not stored, before another
--                     one begins; where the log was read to.
-- called by: twopc.publisher.log_reader
-- tables:    msrepl.mspublisher_databases, msrepl.msrepl_blocks
-- holes:     none
create or replace function msrepl.drop_parts(publisher integer) returns pg_lsn
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    mark pg_lsn;
begin
    -- a store that another session has begun is either seen or refused from now on
    update msrepl.mspublisher_databases d
    set (open_seqno, open_pid, open_count) = (null, null, d.open_count + (d.open_seqno is not null)::integer)
    where d.id = drop_parts.publisher
    returning d.read_to into mark;
    delete from msrepl.msrepl_blocks b where b.publisher_database_id = drop_parts.publisher and b.last_seqno > mark;
    return mark;
end
$msrepl$;
revoke all on function msrepl.drop_parts(integer) from public;
comment on function msrepl.drop_parts(integer)
    is 'Removes the parts of a transaction whose last one a log reader has not stored';

-- msrepl.keep_stored: nobody but clean-up removes what is stored, and the mark of a log reader moves forward only.
-- called by: its triggers on msrepl_blocks and mspublisher_databases
-- tables:    msrepl.mspublisher_databases
-- holes:     none
--
-- A log reader may delete, for the parts of a transaction whose last one was not stored: see msrepl.drop_parts. Whoever
-- may truncate the table may remove everything.
create or replace function msrepl.keep_stored() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if has_table_privilege('msrepl.msrepl_blocks', 'truncate') then
        return coalesce(new, old);
    elsif tg_op = 'DELETE' then
        if old.last_seqno > (select d.read_to from msrepl.mspublisher_databases d
                             where d.id = old.publisher_database_id) then
            return old;
        end if;
    end if;
    raise exception using
        errcode = 'insufficient_privilege',
        message = format('what is stored stays: role %s may not take it back', current_user);
end
$msrepl$;
revoke all on function msrepl.keep_stored() from public;
comment on function msrepl.keep_stored()
    is 'Nobody but clean-up removes what is stored, and the mark of a log reader moves forward only';
create or replace trigger keep_stored before delete on msrepl.msrepl_blocks
    for each row execute function msrepl.keep_stored();
create or replace trigger keep_stored before update of read_to on msrepl.mspublisher_databases
    for each row when (new.read_to < old.read_to) execute function msrepl.keep_stored();

-- What the log reader's role may do in the distribution database: append, move its own mark, and remove parts of a
-- transaction that it begins anew: see msrepl.keep_stored.
-- called by: twopc.publisher.distribution
-- tables:    those of the distribution database
-- holes:     logreader
grant usage on schema msrepl to "msrepl_logreader_01";
grant select on msrepl.mspublisher_databases, msrepl.msrepl_originators, msrepl.msarticles,
    msrepl.msarticle_shapes, msrepl.mssubscriptions, msrepl.msrepl_transactions, msrepl.mstracer_tokens to "msrepl_logreader_01";
grant update (
    read_to, last_commit, read_at, last_error, horizon, open_seqno, open_xid, open_originator, open_pid, open_count
) on msrepl.mspublisher_databases to "msrepl_logreader_01";
grant insert, delete on msrepl.msrepl_blocks to "msrepl_logreader_01";
grant insert on msrepl.msdistribution_history, msrepl.mstracer_tokens to "msrepl_logreader_01";
grant update (publisher_commit, distributor_commit) on msrepl.mstracer_tokens to "msrepl_logreader_01";
grant select (publisher_database_id, last_seqno, transactions, commands), update (command_originators)
    on msrepl.msrepl_blocks to "msrepl_logreader_01";
grant execute on function msrepl.log_was_read(integer, pg_lsn, bigint, pg_lsn, timestamptz, xid8, boolean),
    msrepl.part_was_read(integer, pg_lsn, bigint, pg_lsn, xid8, integer, boolean),
    msrepl.drop_parts(integer),
    msrepl.refuse_store(integer, pg_lsn, bigint) to "msrepl_logreader_01";

-- What a distribution agent's role may do in the distribution database: read, and say how far it is.
-- called by: twopc.publisher.distribution
-- tables:    those of the distribution database
-- holes:     agent
grant usage on schema msrepl to "msrepl_agent_01";
grant select on msrepl.mspublisher_databases, msrepl.msrepl_originators, msrepl.msarticles,
    msrepl.msarticle_shapes, msrepl.mssubscriptions, msrepl.msdistribution_agents, msrepl.msrepl_blocks, msrepl.msrepl_transactions,
    msrepl.msrepl_commands, msrepl.mstracer_tokens, msrepl.mstracer_history to "msrepl_agent_01";
grant execute on function msrepl.transactions_between(integer, pg_lsn, pg_lsn),
    msrepl.commands_between(integer, pg_lsn, pg_lsn) to "msrepl_agent_01";
grant update (delivered, delivered_at, runstatus, runstatus_at, last_error)
    on msrepl.msdistribution_agents to "msrepl_agent_01";
grant insert on msrepl.msdistribution_history, msrepl.mstracer_history to "msrepl_agent_01";
grant update (subscriber_commit) on msrepl.mstracer_history to "msrepl_agent_01";
