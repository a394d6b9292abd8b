-- msrepl.part_was_read: records that a part of a large transaction is stored, and wakes the agents, which may begin it.
-- called by: twopc.publisher.log_reader
-- tables:    msrepl.mspublisher_databases
-- holes:     none
--
-- was, version  as for msrepl.log_was_read, which ends the transaction
-- seqno, xid, originator  of the transaction
-- begins        this is the first part
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
