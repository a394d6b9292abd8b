-- msrepl.merge_learn_ranges: enters ranges that this node has allotted to the neighbour, and no longer knows.
-- called by: merge agents, at a Publisher that was restored from a backup
-- tables:    msrepl.sysmergearticles, msrepl.msmerge_identity_range, the article's sequence
-- holes:     owner
--
-- The sequence of a topmost Publisher moves beyond all values that the neighbour has, as if they were drawn: no other
-- way is safe while other sessions draw values. It moves by ten million values at most, since the value comes from an
-- agent. Returns the ranges with the numbers that they have here now, possibly lower than those that the neighbour
-- knows; NULL if values of one of them were allotted to another Subscriber, or drawn at a topmost Publisher, since the
-- restore.
create or replace function msrepl.merge_learn_ranges(artid uuid, begins int8[], ends int8[], highest int8)
returns table (allotment int8, range_begin int8, range_end int8)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    name constant text := (msrepl.merge_neighbour()).subscriber_server;
    article msrepl.sysmergearticles;
    sequence pg_sequence;
    behind int8;
    passed int8multirange;
    is_own boolean;
begin
    if (msrepl.merge_neighbour()).is_publisher or (msrepl.merge_neighbour()).ranges_known then
        return;
    end if;
    select a.* into article from msrepl.sysmergearticles as a
    where a.artid = $1 and a.identity_column is not null for update;
    select s.* into sequence from pg_sequence as s where s.seqrelid = article.identity_sequence;
    if not article.created_table then
        behind := ((select max(u.v) from unnest($3 || $4) as u(v))
            - coalesce(pg_sequence_last_value(sequence.seqrelid), sequence.seqstart - sequence.seqincrement)) / sequence.seqincrement;
        if behind > 10000000 then
            raise exception '% has values up to % of column % of table %, and the sequence of this node is more than ten million behind',
                name, (select max(u.v) from unnest($3 || $4) as u(v)), article.identity_column, article.source_object
                using errcode = 'object_not_in_prerequisite_state', hint = 'Move the sequence beyond that value with setval.';
        end if;
        update msrepl.sysmergearticles as a set identity_passed = a.identity_passed + n.passed
        from (
            select int8multirange(int8range(min(d.v), max(d.v) + sequence.seqincrement)) as passed
            from (select nextval(sequence.seqrelid::regclass) as v from generate_series(1, behind)) as d
            having count(*) = (max(d.v) - min(d.v)) / sequence.seqincrement + 1) as n  -- nobody has drawn one meanwhile
        where a.artid = $1;
        select a.identity_passed into passed from msrepl.sysmergearticles as a where a.artid = $1;
    end if;
    is_own := not exists (
        select from unnest($2, $3) as u(first, last)
        join msrepl.msmerge_identity_range as r on r.artid = $1 and r.place_end is null
            and r.subscriber_server <> name and r.range_begin <= u.last and r.range_end >= u.first
    ) and not exists (
        select from unnest($2, $3) as u(first, last)
        where not int8range(u.first, u.last, '[]') <@ passed and not exists (
            select from msrepl.msmerge_identity_range as r
            where r.artid = $1 and r.place_end is null and r.range_begin = u.first));
    if not is_own then
        return query select null::int8, null::int8, null::int8;
        return;
    end if;
    insert into msrepl.msmerge_identity_range (artid, subscriber_server, range_begin, range_end)
    select $1, name, u.first, u.last from unnest($2, $3) as u(first, last)
    on conflict (artid, range_begin) where place_end is null do nothing;
    return query
        select r.id, r.range_begin, r.range_end from msrepl.msmerge_identity_range as r
        where r.artid = $1 and r.place_end is null and r.range_begin = any ($2);
end
$msrepl$;
alter function msrepl.merge_learn_ranges(uuid, int8[], int8[], int8) owner to {owner};
revoke all on function msrepl.merge_learn_ranges(uuid, int8[], int8[], int8) from public;
comment on function msrepl.merge_learn_ranges(uuid, int8[], int8[], int8) is 'Enters ranges that this node has allotted and forgotten';
