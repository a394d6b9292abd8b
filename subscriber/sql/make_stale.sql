-- msrepl.make_stale: refuses changes of a subscribed table until its triggers are created again.
-- called by: ddl_guard, twopc.subscriber.subscription
-- tables:    msrepl.msreplication_objects
-- holes:     owner
--
-- A repeated call changes the row's xmin, by which code that has compared rows in the meantime sees that they
-- may have changed since.
create or replace function msrepl.make_stale(relation oid, reason text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    article msrepl.msreplication_objects;
    routine oid;
begin
    select o.* into article from msrepl.msreplication_objects as o where o.objid = $1;
    update msrepl.msreplication_objects as o set stale = coalesce(o.stale, $2) where o.objid = $1;
    if article.stale is not null then
        return;
    end if;
    foreach routine in array article.routines loop
        execute format(
            'create or replace function %s() returns trigger language plpgsql security definer '
            'set search_path = pg_catalog, pg_temp as %L',
            routine::regproc,
            format('begin perform msrepl.raise_stale(%L, %L, ''Subscriber''); return null; end',
                   article.dest_schema, article.article));
    end loop;
end
$msrepl$;
alter function msrepl.make_stale(oid, text) owner to {owner};
revoke all on function msrepl.make_stale(oid, text) from public;
comment on function msrepl.make_stale(oid, text) is 'Lets no change of a subscribed table through until its triggers are made again';
