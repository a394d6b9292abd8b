-- msrepl.log_was_read: advances the log reader's position at the end of each store, and wakes the agents.
-- called by: twopc.publisher.log_reader
-- tables:    msrepl.mspublisher_databases
-- holes:     none
--
-- was, version  the position and the registry version that the store assumes; if either has changed, it must fail
-- read_to       commit LSN of the last stored transaction
-- horizon       the highest id of a stored transaction
-- ends_parts    parts of the first transaction have been stored already
-- slot_limit    position to which the slot may be moved from now on
drop function if exists msrepl.log_was_read(integer, pg_lsn, bigint, pg_lsn, timestamptz);
drop function if exists msrepl.log_was_read(integer, pg_lsn, bigint, pg_lsn, timestamptz, xid8);
drop function if exists msrepl.log_was_read(integer, pg_lsn, bigint, pg_lsn, timestamptz, xid8, boolean);
create or replace function msrepl.log_was_read(
    publisher integer, was pg_lsn, version bigint, read_to pg_lsn, committed timestamptz,
    horizon xid8, ends_parts boolean, slot_limit pg_lsn
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    name text;
begin
    update msrepl.mspublisher_databases d
    set (read_to, last_seqno, slot_limit, last_commit, read_at, last_error, horizon, open_seqno, open_pid)
      = (log_was_read.read_to, log_was_read.read_to, greatest(d.slot_limit, log_was_read.slot_limit), committed,
         clock_timestamp(), null, greatest(d.horizon, log_was_read.horizon), null, null)
    where d.id = log_was_read.publisher and d.read_to = was and d.registry_version = version
        and case when ends_parts then d.open_pid = pg_backend_pid() else d.open_seqno is null end
    returning d.publisher into name;
    if not found then
        perform msrepl.refuse_store(publisher, was, version);
    end if;
    perform pg_notify('msrepl_distribution', name);
end
$msrepl$;
revoke all on function msrepl.log_was_read(integer, pg_lsn, bigint, pg_lsn, timestamptz, xid8, boolean, pg_lsn) from public;
comment on function msrepl.log_was_read(integer, pg_lsn, bigint, pg_lsn, timestamptz, xid8, boolean, pg_lsn)
    is 'Moves the log reader''s mark at the end of each store, and wakes the agents';
