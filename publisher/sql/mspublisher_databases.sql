-- msrepl.mspublisher_databases: the Publisher databases whose changes this distribution database holds.
-- called by: twopc.publisher.distribution; the log reader, which moves read_to with every store; agents; twopc.sim.spark
-- tables:    itself
-- holes:     none
--
-- publisher    the Publisher's node name
-- read_to      commit LSN of the last stored transaction; what is read again up to here is discarded
-- last_seqno   commit LSN of the last transaction that was stored from the log: a slot that begins before sends it again
-- slot_limit   the slot may have been moved up to here, and no further; 0/0: unknown
-- last_commit  when that transaction was committed
-- read_at      when something was last stored
-- horizon      the highest id of a transaction whose changes are or may be stored; 0: unknown
-- removed_to   commit LSN of the last transaction that clean-up has removed
-- identity     generated when the database was entered here, and never changed: it identifies data taken from here
-- registry_version  counts the changes to its articles and originators
-- open_seqno   commit LSN of a large transaction of which parts are stored, but not the last; NULL: none
-- open_xid, open_originator  its values in msrepl_transactions; the originator may still change
-- open_pid     the process that stores it
-- open_count   how often stored parts were removed or changed
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
    open_count bigint not null default 0,
    last_seqno pg_lsn not null default '0/0',
    slot_limit pg_lsn not null default '0/0'
);
do $msrepl$
begin
    -- a table of an earlier version; the lock is taken only in this case
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
    if not exists (select from pg_attribute
                   where attrelid = 'msrepl.mspublisher_databases'::regclass and attname = 'slot_limit') then
        alter table msrepl.mspublisher_databases add column last_seqno pg_lsn not null default '0/0',
            add column slot_limit pg_lsn not null default '0/0';
    end if;
end
$msrepl$;
comment on table msrepl.mspublisher_databases is 'Publisher databases, and how far the log of each has been read';
