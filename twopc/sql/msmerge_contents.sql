-- msrepl.msmerge_contents: a row for each row of an article that was inserted or updated.
-- called by: administrators; tests
-- tables:    msrepl.msmerge_metadata, msrepl.msmerge_genhistory, msrepl.msmerge_replica
-- holes:     owner
create or replace view msrepl.msmerge_contents as
select m.tablenick, m.rowguid, msrepl.merge_generation(m.xid) as generation,
       msrepl.merge_lineage(m.lineage, r.replica, m.own) as lineage, msrepl.merge_colv(m.colv, r.replica) as colv1
from msrepl.msmerge_metadata as m, msrepl.msmerge_replica as r
where not m.gone;
alter view msrepl.msmerge_contents owner to {owner};
revoke all on msrepl.msmerge_contents from public;
comment on view msrepl.msmerge_contents is 'A row for each row of an article that was inserted or updated. msmerge_tombstone holds those that were deleted';
