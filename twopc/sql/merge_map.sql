-- msrepl.merge_map: determines which rows belong to which partitions, in the snapshot that is a generation.
-- called by: msrepl.merge_close; twopc.drivers.merge.partitions
-- tables:    msrepl.sysmergepartitioninfo, msrepl.sysmergearticles, msrepl.msmerge_metadata,
--            msrepl.msmerge_*_partition_mappings; see msrepl.merge_refuse_rewritten
-- holes:     owner
--
-- It does so for all partitions, or for one as a whole. Parents come before their children. Returns how many
-- mappings have changed.
create or replace function msrepl.merge_map(generation int8, seen pg_snapshot, is_changed boolean, whole integer) returns bigint
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    each record;
    count bigint;
    total bigint := 0;
begin
    for each in
        select a.artid, a.nickname, i.use_partition_groups, i.filters_on_time
        from msrepl.sysmergepartitioninfo as i join msrepl.sysmergearticles as a on a.artid = i.artid
        order by a.nickname
    loop
        if whole is not null or is_changed or each.filters_on_time then
            execute format('select msrepl.%I($1, $2, $3, $4)', 'msmerge_map_' || replace(each.artid::text, '-', ''))
                into count using generation, seen, each.use_partition_groups and whole is null, whole;
            total := total + count;
            is_changed := is_changed or count > 0;  -- children of this article's rows come later
        end if;
    end loop;
    perform msrepl.merge_refuse_rewritten();
    return total;
end
$msrepl$;
alter function msrepl.merge_map(int8, pg_snapshot, boolean, integer) owner to {owner};
revoke all on function msrepl.merge_map(int8, pg_snapshot, boolean, integer) from public;
comment on function msrepl.merge_map(int8, pg_snapshot, boolean, integer) is 'Works out which rows belong to which partitions';
