-- msrepl.merge_note_ranges: records that the neighbour has reported which ranges it holds.
-- called by: merge agents, at a Publisher that was restored from a backup
-- tables:    msrepl.sysmergesubscriptions
-- holes:     owner
create or replace function msrepl.merge_note_ranges() returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    update msrepl.sysmergesubscriptions as s set ranges_known = true
    where s.subscriber_server = (msrepl.merge_neighbour()).subscriber_server and not s.ranges_known
$msrepl$;
alter function msrepl.merge_note_ranges() owner to {owner};
revoke all on function msrepl.merge_note_ranges() from public;
comment on function msrepl.merge_note_ranges() is 'Notes that the neighbour has told which ranges it holds';
