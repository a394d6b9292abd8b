-- msrepl.msmerge_tombstone: a row for each row of an article that was deleted.
-- called by: administrators; tests
-- tables:    msrepl.msmerge_metadata, msrepl.msmerge_genhistory, msrepl.msmerge_replica
-- holes:     owner
create or replace view msrepl.msmerge_tombstone as
select m.rowguid, m.tablenick, 1::smallint as type, msrepl.merge_generation(m.xid) as generation,
       msrepl.merge_lineage(m.lineage, r.replica, m.own) as lineage
from msrepl.msmerge_metadata as m, msrepl.msmerge_replica as r
where m.gone;
alter view msrepl.msmerge_tombstone owner to {owner};
revoke all on msrepl.msmerge_tombstone from public;
comment on view msrepl.msmerge_tombstone is 'A row for each row of an article that was deleted. Of type 1: deleted by a user';
