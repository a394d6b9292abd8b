-- msrepl.merge_allot: allots identity values to the neighbour, or returns again an allotment that did not arrive.
-- called by: merge agents, at a Publisher
-- tables:    msrepl.sysmergearticles, msrepl.sysmergesubscriptions, msrepl.msmerge_identity_range; see
--            msrepl.merge_allot_ranges
-- holes:     owner
--
-- A Subscriber's request is limited to two ranges of its size.
create or replace function msrepl.merge_allot(artid uuid, received int8, count int8)
returns table (allotment int8, range_begin int8, range_end int8)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    size int8;
    amount int8;
begin
    select case peer.subscriber_type when 1 then a.pub_identity_range else a.identity_range end into size
    from msrepl.sysmergearticles as a where a.artid = $1 and a.identity_column is not null for update;
    if peer.is_publisher or not found then
        return;
    end if;
    amount := least($3, 2 * size);
    return query
        select r.id, r.range_begin, r.range_end from msrepl.msmerge_identity_range as r
        where r.artid = $1 and r.subscriber_server = peer.subscriber_server and r.place_end is null and r.id > $2;
    if not found then
        return query select * from msrepl.merge_allot_ranges(peer.subscriber_server, $1, amount);
    end if;
end
$msrepl$;
alter function msrepl.merge_allot(uuid, int8, int8) owner to {owner};
revoke all on function msrepl.merge_allot(uuid, int8, int8) from public;
comment on function msrepl.merge_allot(uuid, int8, int8) is 'Allots identity values to the neighbour';
