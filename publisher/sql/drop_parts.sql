-- msrepl.drop_parts: removes the parts of a transaction whose last part was not stored, before a log reader
-- begins; returns the position up to which the log was read.
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
    -- a store that another session has begun is either visible here or refused from now on
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
