-- msmerge_idn_<artid>: gives a row its identity value from the ranges that the Publisher has allotted (548).
-- called by: BEFORE INSERT trigger of the article's table at a Subscriber, for a row without a value
-- tables:    msrepl.msmerge_identity_range, msrepl.msmerge_places_<nickname>, msrepl.sysmergesubscriptions
-- holes:     function, artid, table_name, column, column_text, sequence, step, owner, comment
--
-- A place that was counted while it had no range is lost, but no value is. Users' types have OIDs from 16384: a column
-- that has taken the column's name would be assigned to by code of the table's owner.
create or replace function {function}() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    place int8;
    value int8;
begin
    if pg_typeof(new.{column})::oid >= 16384 then
        raise exception 'column % of table % has another type than when it was published: %',
            {column_text}, {table_name}, pg_typeof(new.{column})
            using errcode = 'datatype_mismatch',
                  hint = 'Give the column that was published its name back.';
    end if;
    loop
        place := nextval({sequence});
        select r.range_begin + (place - r.place_begin) * {step} into value
        from msrepl.msmerge_identity_range as r
        where r.artid = {artid} and r.place_end >= place and r.place_begin <= place;
        exit when found;
        if not exists (
            select from msrepl.msmerge_identity_range as r where r.artid = {artid} and r.place_end > place)
        then
            raise exception 'table % has used up its identity ranges at % (548)%', {table_name},
                (select s.subscriber_server from msrepl.sysmergesubscriptions as s where s.is_self),
                coalesce((select format(', the last of them from %s to %s', r.range_begin, r.range_end) from msrepl.msmerge_identity_range as r
                    where r.artid = {artid} and r.place_end is not null order by r.place_end desc limit 1), ': it has none now')
                using errcode = 'sequence_generator_limit_exceeded',
                      hint = 'A session of the Merge Agent allots new ones: twopc merge sync; begin the transaction again then. If it brings none, the Publisher has none to allot: twopc merge ranges.';
        end if;
    end loop;
    new.{column} := value;
    return new;
end
$msrepl$;
alter function {function}() owner to {owner};
revoke all on function {function}() from public;
comment on function {function}() is {comment};
