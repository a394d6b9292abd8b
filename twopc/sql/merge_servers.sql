-- msrepl.merge_servers: the server subscriptions at this node and below it, each with its numbers and its priority.
-- called by: msrepl.merge_hello
-- tables:    msrepl.sysmergesubscriptions
-- holes:     owner
--
-- via NULL: all of them, as they are reported to this node's Publisher; otherwise those that a
-- republisher has reported.
create or replace function msrepl.merge_servers(via text) returns jsonb
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select coalesce(jsonb_agg(jsonb_build_object(
        'name', s.subscriber_server, 'replicas', to_jsonb(s.former || s.replnickname), 'priority', s.priority)
        order by s.subscriber_server collate "C"), '[]')
    from msrepl.sysmergesubscriptions as s
    where case when $1 is null then s.subscriber_type = 1 and s.status = 1 and not s.is_self and not s.is_publisher
               else s.via = $1 end
$msrepl$;
alter function msrepl.merge_servers(text) owner to {owner};
revoke all on function msrepl.merge_servers(text) from public;
comment on function msrepl.merge_servers(text) is 'Server subscriptions at this node and below it';
