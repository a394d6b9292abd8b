-- msrepl.merge_settle: records at the end of a session what the Publisher has, and has removed, and removes
-- the same here.
-- called by: merge agents, at a Subscriber
-- tables:    msrepl.sysmergesubscriptions, msrepl.msmerge_genhistory; see msrepl.merge_clean_up, msrepl.merge_clean_conflicts
-- holes:     owner
--
-- generation is the Publisher's generation that contains all that this node had sent before.
create or replace function msrepl.merge_settle(generation int8, cleaned int8) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
begin
    if not peer.is_publisher then
        raise exception '% is no Publisher of this node', peer.subscriber_server using errcode = 'insufficient_privilege';
    end if;
    update msrepl.msmerge_genhistory as g set known_by = $1 where g.generation = peer.sentgen and g.known_by is null;
    update msrepl.sysmergesubscriptions as s set cleaned_to = $2
    where s.subscriber_server = peer.subscriber_server and s.cleaned_to < $2;
    perform msrepl.merge_clean_up();
    perform msrepl.merge_clean_conflicts();
end
$msrepl$;
alter function msrepl.merge_settle(int8, int8) owner to {owner};
revoke all on function msrepl.merge_settle(int8, int8) from public;
comment on function msrepl.merge_settle(int8, int8) is 'Notes what the Publisher has, and forgets what it has forgotten';
