-- msrepl.merge_ranges_known: whether this node knows which ranges the neighbour holds.
-- called by: merge agents, at a Publisher
-- tables:    msrepl.sysmergesubscriptions
-- holes:     owner
--
-- is_told: it knows them now.
create or replace function msrepl.merge_ranges_known(is_told boolean) returns boolean
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
begin
    if is_told then
        update msrepl.sysmergesubscriptions as s set ranges_known = true
        where s.subscriber_server = peer.subscriber_server and not s.ranges_known;
    end if;
    return peer.ranges_known;
end
$msrepl$;
alter function msrepl.merge_ranges_known(boolean) owner to {owner};
revoke all on function msrepl.merge_ranges_known(boolean) from public;
comment on function msrepl.merge_ranges_known(boolean) is 'Whether this node knows which ranges the neighbour holds';
