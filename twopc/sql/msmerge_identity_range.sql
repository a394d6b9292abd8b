-- msrepl.msmerge_identity_range: ranges of identity values, who draws from each, and in which order.
-- called by: msrepl.merge_allot_ranges, msrepl.merge_receive_ranges, msmerge_idn_<artid>, msmerge_idc_<artid>
-- tables:    itself
-- holes:     owner
--
-- A row is a run of values that stand step by step. Those of a Subscriber's own have places: its sequence counts
-- places, so that a range ends, and the next begins, in the middle of a statement. allotment is the number that the
-- Publisher has given to it. A republisher's own may begin with what it has allotted out of it. Rows are kept when a subscription ends: no value is allotted twice.
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
