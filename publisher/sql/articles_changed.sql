-- msrepl.articles_changed: counts the changes to a Publisher's articles, so that the log reader notices them.
-- called by: its triggers on msarticles
-- tables:    msrepl.mspublisher_databases
-- holes:     none
--
-- Whoever changes articles and the log reader that stores a batch lock the same row: a batch is stored either
-- before the change, or made of the articles as they are after it.
create or replace function msrepl.articles_changed() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    update msrepl.mspublisher_databases
    set articles_version = articles_version + 1
    where id = coalesce(new.publisher_database_id, old.publisher_database_id);
    return null;
end
$msrepl$;
revoke all on function msrepl.articles_changed() from public;
comment on function msrepl.articles_changed() is 'Counts the changes to a Publisher''s articles';
create or replace trigger articles_changed after insert or update or delete on msrepl.msarticles
    for each row execute function msrepl.articles_changed();
