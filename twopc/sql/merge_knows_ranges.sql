-- msrepl.merge_knows_ranges: tells whether this node has allotted ranges to the neighbour, by their first values.
-- called by: merge agents, at a Publisher
-- tables:    msrepl.sysmergesubscriptions, msrepl.msmerge_identity_range
-- holes:     owner
--
-- The neighbour has them: if one is unknown here, this database was restored to an earlier state. NULL: that is known
-- already, and the neighbour has not reported since which ranges it holds.
create or replace function msrepl.merge_knows_ranges(artids uuid[], firsts int8[]) returns boolean
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    select not exists (
        select from unnest($1, $2) as u(artid, first)
        where not exists (
            select from msrepl.msmerge_identity_range as r
            where r.artid = u.artid and r.range_begin = u.first and r.place_end is null
              and r.subscriber_server = peer.subscriber_server))
    from msrepl.merge_neighbour() as peer where peer.ranges_known
$msrepl$;
alter function msrepl.merge_knows_ranges(uuid[], int8[]) owner to {owner};
revoke all on function msrepl.merge_knows_ranges(uuid[], int8[]) from public;
comment on function msrepl.merge_knows_ranges(uuid[], int8[]) is 'Whether this node has allotted ranges to the neighbour';
