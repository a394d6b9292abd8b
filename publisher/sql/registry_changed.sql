-- msrepl.registry_changed: counts the changes to a Publisher's articles and originators, so that the log
-- reader, which caches them, notices.
-- called by: its triggers on msarticles, msrepl_originators and mssubscriptions
-- tables:    msrepl.mspublisher_databases, msrepl.msarticles
-- holes:     none
--
-- A transaction that changes them and the log reader that stores a batch lock the same row: a batch is
-- either stored before the change, or made from what exists after it. Which Subscribers subscribe, and
-- from which position, matters to the log reader only where calls of routines are stored.
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
