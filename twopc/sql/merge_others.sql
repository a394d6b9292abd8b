-- msrepl.merge_others: the replicas whose changes reach a Subscriber from this node alone.
-- called by: msmerge_take_<artid>, msmerge_hold_<artid>
-- tables:    msrepl.sysmergesubscriptions
-- holes:     owner
--
-- NULL for the Publisher, and until a first session is complete, including the first after an end was
-- restored from a backup: changes that came from here once may be missing then.
create or replace function msrepl.merge_others(peer msrepl.sysmergesubscriptions) returns int8[]
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select array_agg(n.v)
    from msrepl.sysmergesubscriptions as s, unnest(s.former || s.replnickname) as n(v)
    where not $1.is_publisher and $1.recgen > 0
        and s.subscriber_server <> $1.subscriber_server and s.via is distinct from $1.subscriber_server
$msrepl$;
alter function msrepl.merge_others(msrepl.sysmergesubscriptions) owner to {owner};
revoke all on function msrepl.merge_others(msrepl.sysmergesubscriptions) from public;
comment on function msrepl.merge_others(msrepl.sysmergesubscriptions) is 'Replicas of whose changes a Subscriber knows from this node alone';
