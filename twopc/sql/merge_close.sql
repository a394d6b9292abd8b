-- msrepl.merge_close: closes the open generation, if it contains anything (sp_MSmakegeneration).
-- called by: merge agents, as the first query of a REPEATABLE READ transaction that has locked msmerge_genhistory
-- tables:    msrepl.msmerge_genhistory, msrepl.msmerge_metadata, msrepl.sysmergepartitioninfo,
--            msrepl.msmerge_*_partition_mappings
-- holes:     owner
--
-- The lock is taken first, by LOCK TABLE, which takes no snapshot: of two agents, the second then sees the generation
-- of the first. Without it, the second fails with a duplicate generation; only agents wait for it. New changes are
-- searched for in the order of transaction ids, which makes the planner use their index although it expects a third
-- of all rows. Returns the newest closed generation, which is the caller's snapshot, or contains everything that a
-- new one would.
create or replace function msrepl.merge_close(out generation int8, out guid uuid)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    last msrepl.msmerge_genhistory;
    seen pg_snapshot;
    is_changed boolean;
    moves bigint;
    is_filtered constant boolean := exists (select from msrepl.sysmergepartitioninfo);
begin
    select g.* into last from msrepl.msmerge_genhistory as g order by g.generation desc limit 1;
    seen := last.snap;
    is_changed := coalesce((
        select true from msrepl.msmerge_metadata as m
        where m.xid >= pg_snapshot_xmin(seen) and not pg_visible_in_snapshot(m.xid, seen)
        order by m.xid desc limit 1), false);
    if is_filtered then
        moves := msrepl.merge_map(last.generation + 1, seen, is_changed, null);
        is_changed := is_changed or moves > 0
            or exists (select from msrepl.msmerge_generation_partition_mappings as p where p.generation > last.generation);
    end if;
    if is_changed then
        insert into msrepl.msmerge_genhistory as g (generation, snap)
        values (last.generation + 1, pg_current_snapshot())
        returning g.* into last;
        if is_filtered then
            perform msrepl.merge_map_generation(last.generation, seen);
        end if;
    end if;
    generation := last.generation;
    guid := last.guidsrc;
end
$msrepl$;
alter function msrepl.merge_close() owner to {owner};
revoke all on function msrepl.merge_close() from public;
comment on function msrepl.merge_close() is 'Closes a generation, and tells the newest';
