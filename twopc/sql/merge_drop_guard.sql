-- msrepl.merge_drop_guard: refuses to drop a table that is published for merging (3724).
-- called by: event trigger msrepl_merge_drop_guard
-- tables:    msrepl.sysmergearticles
-- holes:     owner
create or replace function msrepl.merge_drop_guard() returns event_trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    dropped record;
begin
    for dropped in
        select a.source_schema, a.source_object from pg_event_trigger_dropped_objects() as d
        join msrepl.sysmergearticles as a on a.objid = d.objid
        where d.classid = 'pg_class'::regclass and d.objsubid = 0
        order by a.nickname
    loop
        raise exception 'table %.% is published for merging, and cannot be dropped (3724)', dropped.source_schema, dropped.source_object
            using errcode = 'object_in_use',
                  hint = format('Take it out of the publication first: twopc merge unpublish %s', dropped.source_object);
    end loop;
end
$msrepl$;
alter function msrepl.merge_drop_guard() owner to {owner};
revoke all on function msrepl.merge_drop_guard() from public;
comment on function msrepl.merge_drop_guard() is 'Refuses to drop tables that are published for merging';
