-- msrepl.merge_introduce: enters the server subscriptions below a republisher, so that their changes
-- keep their priority.
-- called by: merge agents, if a republisher reports others than before
-- tables:    msrepl.sysmergesubscriptions
-- holes:     owner
--
-- No subscription gets a higher priority than the republisher itself, or the number or name of another node.
create or replace function msrepl.merge_introduce(servers jsonb) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    server record;
begin
    if peer.is_publisher or peer.subscriber_type <> 1 then
        raise exception '% has no server subscription here', peer.subscriber_server using errcode = 'insufficient_privilege';
    end if;
    delete from msrepl.sysmergesubscriptions as s where s.via = peer.subscriber_server;
    for server in select r.name, r.replicas, r.priority from jsonb_to_recordset($1) as r(name text, replicas int8[], priority real) loop
        insert into msrepl.sysmergesubscriptions (subscriber_server, replnickname, former, subscriber_type, priority, via)
        select server.name, server.replicas[cardinality(server.replicas)],
               server.replicas[:cardinality(server.replicas) - 1], 1, least(server.priority, peer.priority), peer.subscriber_server
        where not exists (
            select from msrepl.sysmergesubscriptions as s
            where s.subscriber_server = server.name or s.former || s.replnickname && server.replicas);
    end loop;
end
$msrepl$;
alter function msrepl.merge_introduce(jsonb) owner to {owner};
revoke all on function msrepl.merge_introduce(jsonb) from public;
comment on function msrepl.merge_introduce(jsonb) is 'Enters the server subscriptions below a republisher';
