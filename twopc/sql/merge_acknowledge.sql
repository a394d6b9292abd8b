-- msrepl.merge_acknowledge: records that the neighbour has a generation of this node, except for rows that failed there
-- or were deferred.
-- called by: merge agents
-- tables:    msrepl.sysmergesubscriptions, msrepl.sysmergearticles, msrepl.msmerge_metadata
-- holes:     owner
--
-- Those rows are touched: they belong to the next generation, and are sent again. Otherwise the metadata of a deferred
-- row might be removed before the change for whose sake it was deferred is uploaded, and this change would overwrite
-- the row without a conflict.
create or replace function msrepl.merge_acknowledge(generation int8, guid uuid, artids uuid[], guids uuid[])
returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
begin
    update msrepl.sysmergesubscriptions as s
    set sentgen = $1, sentguid = $2, last_sync_date = clock_timestamp()
    where s.subscriber_server = (msrepl.merge_neighbour()).subscriber_server;
    perform from unnest($3, $4) as f(artid, rowguid)
    join msrepl.sysmergearticles as a on a.artid = f.artid
    join msrepl.msmerge_metadata as m on m.tablenick = a.nickname and m.rowguid = f.rowguid
    order by a.nickname, m.rowguid
    for update of m;
    update msrepl.msmerge_metadata as m
    set xid = pg_current_xact_id()
    from unnest($3, $4) as f(artid, rowguid) join msrepl.sysmergearticles as a on a.artid = f.artid
    where m.tablenick = a.nickname and m.rowguid = f.rowguid;
    perform msrepl.merge_touch_mappings(f.artid, array_agg(f.rowguid), true)
    from unnest($3, $4) as f(artid, rowguid) group by f.artid;
end
$msrepl$;
alter function msrepl.merge_acknowledge(int8, uuid, uuid[], uuid[]) owner to {owner};
revoke all on function msrepl.merge_acknowledge(int8, uuid, uuid[], uuid[]) from public;
comment on function msrepl.merge_acknowledge(int8, uuid, uuid[], uuid[]) is 'Notes what a neighbour has of ours';
