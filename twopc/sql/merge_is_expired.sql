-- msrepl.merge_is_expired: tells whether a Subscriber has had no session for too long, and lacks changes.
-- called by: msrepl.merge_hello, msrepl.merge_clean_up
-- tables:    msrepl.sysmergepublications, msrepl.msmerge_genhistory, msrepl.msmerge_metadata, msrepl.msmerge_replica
-- holes:     owner
create or replace function msrepl.merge_is_expired(peer msrepl.sysmergesubscriptions) returns boolean
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select not peer.is_publisher
        and clock_timestamp() - coalesce(peer.last_sync_date, peer.subscribed_at) > make_interval(days => p.retention)
        and (peer.sentgen < r.cleaned or exists (
            select from msrepl.msmerge_genhistory as g
            join msrepl.msmerge_metadata as m on m.xid >= pg_snapshot_xmin(g.snap) and not pg_visible_in_snapshot(m.xid, g.snap)
            where g.generation = peer.sentgen))
    from msrepl.msmerge_replica as r,
         (select max(p.retention) as retention from msrepl.sysmergepublications as p having min(p.retention) > 0) as p
$msrepl$;
alter function msrepl.merge_is_expired(msrepl.sysmergesubscriptions) owner to {owner};
revoke all on function msrepl.merge_is_expired(msrepl.sysmergesubscriptions) from public;
comment on function msrepl.merge_is_expired(msrepl.sysmergesubscriptions) is 'Whether a subscription has expired';
