-- msrepl.merge_allot_ranges: allots identity values of an article to a Subscriber, permanently.
-- called by: msrepl.merge_allot; twopc.drivers.merge.ranges, when a subscription begins
-- tables:    msrepl.sysmergearticles, msrepl.sysmergesubscriptions, msrepl.msmerge_identity_range,
--            msrepl.msmerge_allotting, the article's sequence
-- holes:     owner
--
-- They are drawn in the same way as the node's own values, so that no session waits and none is drawn twice: at the
-- topmost Publisher from the table's sequence, at a republisher from its own ranges. Values that others draw in the
-- meantime divide a range into runs. If fewer are left, fewer are allotted; a republisher keeps two ranges of a client
-- subscription for itself, or one of its own ranges if that has fewer values. Nothing is allotted while a Publisher that
-- was restored from a backup does not know what each Subscriber holds.
create or replace function msrepl.merge_allot_ranges(subscriber text, artid uuid, count int8)
returns table (allotment int8, range_begin int8, range_end int8)
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    article msrepl.sysmergearticles;
    amount int8;
begin
    lock table msrepl.msmerge_identity_range in share row exclusive mode;  -- one at a time: the last one stands for all
    select a.* into article from msrepl.sysmergearticles as a where a.artid = $2;
    amount := least($3, msrepl.merge_identity_left($2)
        - case when article.created_table then least(2 * article.identity_range, article.pub_identity_range) else 0 end);
    if amount < 1 or exists (
        select from msrepl.sysmergesubscriptions as s
        where not s.ranges_known and not s.is_publisher and s.login is not null and s.status = 1)
    then
        return;
    end if;
    perform setval('msrepl.msmerge_allotting', pg_current_xact_id()::text::int8);
    return query
        with drawn as materialized (
            select nextval(article.identity_sequence::regclass) as place from generate_series(1, amount)
        ), own as (
            select case when article.created_table
                then (select r.range_begin + (d.place - r.place_begin) * article.identity_step from msrepl.msmerge_identity_range as r
                      where r.artid = $2 and r.place_end >= d.place and r.place_begin <= d.place)
                else d.place end as value
            from drawn as d
        ), runs as (
            select min(o.value) as first, max(o.value) as last
            from (select o.value, o.value - article.identity_step * row_number() over (order by o.value) as run
                  from own as o where o.value is not null) as o
            group by o.run order by 1
        ), entered as (
            insert into msrepl.msmerge_identity_range as r (artid, subscriber_server, range_begin, range_end)
            select $2, $1, n.first, n.last from runs as n
            where not exists (select from msrepl.msmerge_identity_range as r
                              where r.artid = $2 and r.place_end is null and r.range_begin <= n.last and r.range_end >= n.first)
            returning r.id, r.range_begin, r.range_end
        )
        select e.id, e.range_begin, e.range_end from entered as e order by 2;
end
$msrepl$;
alter function msrepl.merge_allot_ranges(text, uuid, int8) owner to {owner};
revoke all on function msrepl.merge_allot_ranges(text, uuid, int8) from public;
comment on function msrepl.merge_allot_ranges(text, uuid, int8) is 'Allots identity values to a Subscriber';
