-- msrepl.forget_epoch: removes what an epoch of a dead coordinator left: markers, including fences, and keys.
-- called by: recovery, once nothing of that epoch is prepared or in progress anywhere; again until it
--            returns less than rows_max
-- tables:    msrepl.branch_marker, msrepl.coordinator_key
-- holes:     owner
create or replace function msrepl.forget_epoch(prefix text, rows_max integer) returns integer
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    forgotten integer;
begin
    delete from msrepl.branch_marker as m
    where m.gid in (
        select b.gid from msrepl.branch_marker as b where starts_with(b.gid, $1) limit $2);
    get diagnostics forgotten = row_count;
    delete from msrepl.coordinator_key as k where 'twopc:' || k.coordinator || ':' || k.epoch || ':' = $1;
    return forgotten;
end
$msrepl$;
alter function msrepl.forget_epoch(text, integer) owner to {owner};
revoke all on function msrepl.forget_epoch(text, integer) from public;
comment on function msrepl.forget_epoch(text, integer) is 'Removes the markers whose gid starts so';
