-- msrepl.merge_ranges: what is left of this node's identity ranges, and how many values a range has.
-- called by: merge agents, at a Subscriber
-- tables:    msrepl.sysmergearticles, msrepl.sysmergesubscriptions, msrepl.msmerge_identity_range
-- holes:     owner
--
-- received is the Publisher's last allotment that has arrived here, and newest its first value; NULL: none has arrived,
-- or all were withdrawn.
create or replace function msrepl.merge_ranges()
returns table (artid uuid, left_over int8, range_size int8, threshold integer, received int8, newest int8)
language sql stable security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    select a.artid, msrepl.merge_identity_left(a.artid),
           case s.subscriber_type when 1 then a.pub_identity_range else a.identity_range end, a.identity_threshold,
           n.allotment, n.range_begin
    from msrepl.sysmergearticles as a
    join msrepl.sysmergesubscriptions as s on s.is_self
    left join lateral (
        select r.allotment, r.range_begin from msrepl.msmerge_identity_range as r
        where r.artid = a.artid and r.place_end is not null order by r.allotment desc limit 1) as n on true
    where a.created_table and a.identity_column is not null
    order by a.nickname
$msrepl$;
alter function msrepl.merge_ranges() owner to {owner};
revoke all on function msrepl.merge_ranges() from public;
comment on function msrepl.merge_ranges() is 'What this node has left of its identity ranges';
