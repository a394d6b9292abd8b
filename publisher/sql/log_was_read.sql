-- msrepl.log_was_read: moves the log reader's mark at the end of each store, and wakes the agents.
-- called by: twopc.publisher.log_reader
-- tables:    msrepl.mspublisher_databases
-- holes:     none
--
-- was, version  what the store was made for; if either is another one meanwhile, the store must not happen
-- read_to       commit LSN of the last transaction stored
-- horizon       the highest id of a transaction that was stored
drop function if exists msrepl.log_was_read(integer, pg_lsn, bigint, pg_lsn, timestamptz);
create or replace function msrepl.log_was_read(
    publisher integer, was pg_lsn, version bigint, read_to pg_lsn, committed timestamptz,
    horizon xid8
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    there msrepl.mspublisher_databases;
begin
    update msrepl.mspublisher_databases d
    set (read_to, last_commit, read_at, last_error, horizon)
      = (log_was_read.read_to, committed, clock_timestamp(), null, greatest(d.horizon, log_was_read.horizon))
    where d.id = log_was_read.publisher and d.read_to = was and d.registry_version = version
    returning d.* into there;
    if not found then
        select * into there from msrepl.mspublisher_databases d where d.id = log_was_read.publisher;
        if there.read_to is distinct from was then
            raise exception using
                errcode = 'object_in_use',
                message = format(
                    'the log of Publisher %s was read to %s by another log reader (18752): stop one of them',
                    coalesce(there.publisher, log_was_read.publisher::text), there.read_to);
        end if;
        raise exception using
            errcode = 'serialization_failure',
            message = format('articles or originators of Publisher %s were changed while its log was read', there.publisher);
    end if;
    perform pg_notify('msrepl_distribution', there.publisher);
end
$msrepl$;
revoke all on function msrepl.log_was_read(integer, pg_lsn, bigint, pg_lsn, timestamptz, xid8) from public;
comment on function msrepl.log_was_read(integer, pg_lsn, bigint, pg_lsn, timestamptz, xid8)
    is 'Moves the log reader''s mark at the end of each store, and wakes the agents';
