-- msrepl.merge_identity_left: how many identity values of an article can still be drawn at this node.
-- called by: msrepl.merge_ranges, msrepl.merge_allot_ranges; twopc.drivers.merge.range_status
-- tables:    msrepl.sysmergearticles, msrepl.msmerge_identity_range, catalogs, the article's sequence
-- holes:     owner
create or replace function msrepl.merge_identity_left(artid uuid) returns int8
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select case
        when a.created_table then (
            select coalesce(sum(r.place_end - greatest(r.place_begin, coalesce(d.last, 0) + 1) + 1), 0)::int8
            from msrepl.msmerge_identity_range as r where r.artid = a.artid and r.place_end > coalesce(d.last, 0))
        else greatest(0, (least(s.seqmax, case c.atttypid when 'int2'::regtype then 32767 when 'int4'::regtype then 2147483647 else 9223372036854775807 end)
            - coalesce(d.last, s.seqstart - s.seqincrement)) / s.seqincrement) end
    from msrepl.sysmergearticles as a
    join pg_sequence as s on s.seqrelid = a.identity_sequence
    join pg_attribute as c on c.attrelid = a.objid and c.attname = a.identity_column
    cross join lateral (select pg_sequence_last_value(a.identity_sequence) as last) as d
    where a.artid = $1
$msrepl$;
alter function msrepl.merge_identity_left(uuid) owner to {owner};
revoke all on function msrepl.merge_identity_left(uuid) from public;
comment on function msrepl.merge_identity_left(uuid) is 'How many identity values can still be drawn here';
