-- msrepl.refuse_store: raises an error that says why a log reader cannot store what it has read.
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
