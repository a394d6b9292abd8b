-- msrepl.msmerge_replinfo: the progress of this node with each neighbour.
-- called by: administrators
-- tables:    msrepl.sysmergesubscriptions
-- holes:     owner
create or replace view msrepl.msmerge_replinfo as
select s.subscriber_server as subscriber, s.replnickname, s.sentgen, s.sentguid, s.recgen, s.recguid, s.subscriber_type, s.last_sync_date
from msrepl.sysmergesubscriptions as s
where s.login is not null;
alter view msrepl.msmerge_replinfo owner to {owner};
revoke all on msrepl.msmerge_replinfo from public;
comment on view msrepl.msmerge_replinfo is 'A row for each neighbour, with the generations sent and received';
