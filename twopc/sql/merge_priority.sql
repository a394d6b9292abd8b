-- msrepl.merge_priority: the priority of a change that a neighbour has sent.
-- called by: msmerge_take_<artid>, msmerge_hold_<artid>
-- tables:    msrepl.sysmergesubscriptions
-- holes:     owner
--
-- Below a republisher, it is that of the server subscription that wrote the change; otherwise the neighbour's own,
-- and 0 for a client subscription.
create or replace function msrepl.merge_priority(peer msrepl.sysmergesubscriptions, writer int8) returns real
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select coalesce(
        (select s.priority from msrepl.sysmergesubscriptions as s
         where s.via = peer.subscriber_server and writer = any (s.former || s.replnickname)),
        case when peer.subscriber_type = 1 then peer.priority else 0 end)
$msrepl$;
alter function msrepl.merge_priority(msrepl.sysmergesubscriptions, int8) owner to {owner};
revoke all on function msrepl.merge_priority(msrepl.sysmergesubscriptions, int8) from public;
comment on function msrepl.merge_priority(msrepl.sysmergesubscriptions, int8) is 'The priority of a change that a neighbour has sent';
