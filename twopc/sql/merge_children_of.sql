-- fragment: adds the rows that belong to the partitions of a parent's row that has just entered or left one,
-- or was changed.
-- called by: rendered into msmerge_map_<artid>
-- tables:    msrepl.msmerge_current_partition_mappings, msrepl.msmerge_past_partition_mappings, msrepl.msmerge_metadata
-- holes:     children, parent_nicknames, path_is_kept
--
-- Parents may exchange their keys and keep their partitions.
        candidates := array(
            select unnest(candidates) union select k.rowguid from {children}(array(
                select c.rowguid from msrepl.msmerge_current_partition_mappings as c
                where c.generation = $1 and c.partition_id = any (partitions) and c.tablenick = any ({parent_nicknames})
              union
                select p.rowguid from msrepl.msmerge_past_partition_mappings as p
                where p.generation = $1 and p.partition_id = any (partitions) and p.tablenick = any ({parent_nicknames})
              union
                select m.rowguid from msrepl.msmerge_metadata as m
                where m.xid >= pg_snapshot_xmin(seen) and not pg_visible_in_snapshot(m.xid, seen)
                  and m.tablenick = any ({parent_nicknames}))) as k);
{path_is_kept}
