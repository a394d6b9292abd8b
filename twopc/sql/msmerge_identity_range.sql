-- msrepl.msmerge_identity_range: ranges of identity values, who draws from each, and in which order.
-- called by: msrepl.merge_allot_ranges, msrepl.merge_receive_ranges, msmerge_idn_<artid>, msmerge_idc_<artid>
-- tables:    itself
-- holes:     owner
--
-- A row is a run of values at equal steps. A Subscriber's own ranges have places: its sequence counts places, so that a
-- range can end, and the next begin, in the middle of a statement. allotment is the number that the Publisher has given
-- to the range. A republisher's own range may begin with a range that it has allotted from it. Rows are kept when a
-- subscription ends: no value is allotted twice.
create table if not exists msrepl.msmerge_identity_range (
    id int8 generated always as identity primary key,
    artid uuid not null references msrepl.sysmergearticles on delete cascade,
    subscriber_server text not null,
    range_begin int8 not null,
    range_end int8 not null check (range_end >= range_begin),
    allotment int8,
    place_begin int8,
    place_end int8,
    check ((place_begin is null) = (place_end is null))
);
create unique index if not exists msmerge_identity_range_own on msrepl.msmerge_identity_range (artid, range_begin) where place_end is not null;
create unique index if not exists msmerge_identity_range_allotted on msrepl.msmerge_identity_range (artid, range_begin) where place_end is null;
create index if not exists msmerge_identity_range_place on msrepl.msmerge_identity_range (artid, place_end) where place_end is not null;
alter table msrepl.msmerge_identity_range owner to {owner};
revoke all on msrepl.msmerge_identity_range from public;
comment on table msrepl.msmerge_identity_range is 'Ranges of identity values, and who draws from each';
