-- msrepl.merge_receive_ranges: enters ranges of identity values that the Publisher has allotted to this node.
-- called by: merge agents, at a Subscriber; twopc.drivers.merge.ranges, when a subscription begins
-- tables:    msrepl.sysmergearticles, msrepl.sysmergesubscriptions, msrepl.msmerge_identity_range
-- holes:     owner
--
-- Idempotent. Places continue above those that were counted.
create or replace function msrepl.merge_receive_ranges(artid uuid, allotments int8[], begins int8[], ends int8[]) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    article msrepl.sysmergearticles;
    name constant text := (select s.subscriber_server from msrepl.sysmergesubscriptions as s where s.is_self);
    run record;
    place int8;
begin
    if session_user in (select s.login from msrepl.sysmergesubscriptions as s where not s.is_publisher) then
        raise exception '% allots no ranges to this node', (msrepl.merge_neighbour()).subscriber_server
            using errcode = 'insufficient_privilege';
    end if;
    select a.* into article from msrepl.sysmergearticles as a where a.artid = $1 and a.created_table for update;
    place := 1 + greatest(
        pg_sequence_last_value(article.identity_sequence),
        (select max(r.place_end) from msrepl.msmerge_identity_range as r where r.artid = $1));
    update msrepl.msmerge_identity_range as r set allotment = u.allotment
    from unnest($2, $3) as u(allotment, first)
    where r.artid = $1 and r.range_begin = u.first and r.place_end is not null;
    for run in
        select u.* from unnest($2, $3, $4) as u(allotment, first, last)
        where not exists (select from msrepl.msmerge_identity_range as r where r.artid = $1 and r.range_begin = u.first and r.place_end is not null)
        order by u.allotment
    loop
        insert into msrepl.msmerge_identity_range as r
            (artid, subscriber_server, range_begin, range_end, allotment, place_begin, place_end)
        values ($1, name, run.first, run.last, run.allotment, place, place + (run.last - run.first) / article.identity_step);
        place := place + (run.last - run.first) / article.identity_step + 1;
    end loop;
end
$msrepl$;
alter function msrepl.merge_receive_ranges(uuid, int8[], int8[], int8[]) owner to {owner};
revoke all on function msrepl.merge_receive_ranges(uuid, int8[], int8[], int8[]) from public;
comment on function msrepl.merge_receive_ranges(uuid, int8[], int8[], int8[]) is 'Takes ranges of identity values that were allotted';
