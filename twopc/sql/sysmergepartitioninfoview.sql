-- msrepl.sysmergepartitioninfoview: all articles, each with its filter if there is one.
-- called by: administrators
-- tables:    msrepl.sysmergearticles, msrepl.sysmergepartitioninfo
-- holes:     owner
create or replace view msrepl.sysmergepartitioninfoview as
select a.artid, a.nickname, a.objid, a.source_schema, a.source_object, a.rowguid, a.publication, i.subset_filterclause,
       i.use_partition_groups, i.filters_on_time, coalesce(i.partition_options, 0::smallint) as partition_options,
       coalesce(i.allow_partition_realignment, true) as allow_partition_realignment
from msrepl.sysmergearticles as a left join msrepl.sysmergepartitioninfo as i on i.artid = a.artid;
alter view msrepl.sysmergepartitioninfoview owner to {owner};
revoke all on msrepl.sysmergepartitioninfoview from public;
comment on view msrepl.sysmergepartitioninfoview is 'Articles, with their filters and partition options';
