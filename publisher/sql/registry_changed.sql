-- msrepl.registry_changed: counts the changes to a Publisher's articles and originators, so that the log
--                          reader, which keeps them, notices.
-- called by: its triggers on msarticles and msrepl_originators
-- tables:    msrepl.mspublisher_databases
-- holes:     none
--
-- Whoever changes them and the log reader that stores a batch lock the same row: a batch is stored either
-- before the change, or made of what is there after it.
create or replace function msrepl.registry_changed() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    update msrepl.mspublisher_databases
    set registry_version = registry_version + 1
    where id = coalesce(new.publisher_database_id, old.publisher_database_id);
    return null;
end
$msrepl$;
revoke all on function msrepl.registry_changed() from public;
comment on function msrepl.registry_changed() is 'Counts the changes to a Publisher''s articles and originators';
create or replace trigger registry_changed after insert or update or delete on msrepl.msarticles
    for each row execute function msrepl.registry_changed();
create or replace trigger registry_changed after insert or update or delete on msrepl.msrepl_originators
    for each row execute function msrepl.registry_changed();
