-- msmerge_leave_<artid>: removes rows that have left the Subscriber's partition, with their metadata.
-- called by: msrepl.merge_apply
-- tables:    the article's table and its part of msrepl.msmerge_metadata
-- holes:     function, metadata, floor, floor_text, lock, write, stays, path_is_kept, owner, comment
--
-- This is no deletion, and is not sent to other nodes as one. A row with a change that the Publisher does not know is
-- kept: the change is uploaded first, and the Publisher then makes the row leave again. If the row comes back, its
-- versions continue above those removed.
create or replace function {function}(guids uuid[], out applied integer, out deferred uuid[])
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    confirmed constant pg_snapshot := (
        select g.snap from msrepl.msmerge_genhistory as g where g.generation = peer.sentgen);
    present uuid[];
    unsent uuid[];
begin
    if not peer.is_publisher then
        raise exception 'rows leave at a Subscriber, and % is none', peer.subscriber_server
            using errcode = 'insufficient_privilege';
    end if;
    present := array(select l.rowguid from {lock}($1) as l);
{path_is_kept}
    perform from {metadata} as m where m.rowguid = any ($1) order by m.rowguid for update;
    unsent := array(
        select m.rowguid from {metadata} as m
        where m.rowguid = any ($1) and m.source is distinct from peer.replnickname
          and pg_visible_in_snapshot(m.xid, confirmed) is not true and {stays});
    present := array(select u.guid from unnest(present) as u(guid) where u.guid <> all (unsent));
    perform setval({floor_text}::regclass, h.top) from {floor} as f, (
        select max(m.top) as top from {metadata} as m where m.rowguid = any ($1) and m.rowguid <> all (unsent)) as h
    where h.top > f.last_value;
    delete from {metadata} as m where m.rowguid = any ($1) and m.rowguid <> all (unsent);
    perform {write}(present, '{{}}', '{{}}', '{{}}', '{{}}', '{{}}');
{path_is_kept}
    applied := cardinality(present);
    deferred := unsent;
end
$msrepl$;
alter function {function}(uuid[]) owner to {owner};
revoke all on function {function}(uuid[]) from public;
comment on function {function}(uuid[]) is {comment};
