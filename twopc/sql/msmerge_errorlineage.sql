-- msrepl.msmerge_errorlineage: rows that were deleted at a Subscriber, and could not be deleted at its Publisher.
-- called by: administrators
-- tables:    msrepl.msmerge_conflicts_info, msrepl.msmerge_metadata, msrepl.msmerge_replica
-- holes:     owner
create or replace view msrepl.msmerge_errorlineage as
select c.tablenick, c.rowguid, msrepl.merge_lineage(m.lineage, r.replica, m.own) as lineage
from msrepl.msmerge_conflicts_info as c
left join msrepl.msmerge_metadata as m on m.tablenick = c.tablenick and m.rowguid = c.rowguid
cross join msrepl.msmerge_replica as r
where c.conflict_type = 7 and m.gone is not true;
alter view msrepl.msmerge_errorlineage owner to {owner};
revoke all on msrepl.msmerge_errorlineage from public;
comment on view msrepl.msmerge_errorlineage is 'Deletions that were not carried on';
