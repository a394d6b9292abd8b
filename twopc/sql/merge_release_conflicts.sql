-- msrepl.merge_release_conflicts: notes that conflicts are recorded at the session's Subscriber.
-- called by: merge agents, at a Publisher
-- tables:    msrepl.msmerge_conflicts_info, msrepl.sysmergearticles, the articles' tables of conflicts
-- holes:     owner
--
-- If an article's conflicts are logged at Subscribers alone, they are removed here.
create or replace function msrepl.merge_release_conflicts(ids uuid[]) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    article msrepl.sysmergearticles;
    gone uuid[];
begin
    for article in select a.* from msrepl.sysmergearticles as a where a.conflict_logging = 'subscriber' loop
        with released as (
            delete from msrepl.msmerge_conflicts_info as c
            where c.conflict_id = any (ids) and c.recipient = peer.subscriber_server and c.tablenick = article.nickname
            returning c.conflict_id)
        select array_agg(r.conflict_id) into gone from released as r;
        continue when gone is null;
        execute format('delete from msrepl.%I where msrepl_conflict_id = any ($1)', article.conflict_table) using gone;
    end loop;
    update msrepl.msmerge_conflicts_info as c set recipient = null
    where c.conflict_id = any (ids) and c.recipient = peer.subscriber_server;
end
$msrepl$;
alter function msrepl.merge_release_conflicts(uuid[]) owner to {owner};
revoke all on function msrepl.merge_release_conflicts(uuid[]) from public;
comment on function msrepl.merge_release_conflicts(uuid[]) is 'Notes that conflicts are on record at a Subscriber';
