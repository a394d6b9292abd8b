-- msrepl.article_shaped: records the shape of an article whenever it changes.
-- called by: its trigger on msarticles
-- tables:    msrepl.mspublisher_databases, msrepl.msarticle_shapes
-- holes:     none
--
-- The log reader's store locks the same row of mspublisher_databases, and fails if an article has changed
-- in the meantime: everything stored up to read_to has the previous shape, everything later the new one.
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
        -- entered before shapes were recorded: the article has had this shape from the beginning
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
