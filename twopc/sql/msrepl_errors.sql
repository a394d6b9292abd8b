-- msrepl.msrepl_errors: the errors with which sessions have failed.
-- called by: administrators
-- tables:    msrepl.msmerge_sessions
-- holes:     owner
create or replace view msrepl.msrepl_errors as
select m.session_id as id, m.end_time as "time", m.subscriber_server as source_name, m.error as error_text
from msrepl.msmerge_sessions as m
where m.error is not null;
alter view msrepl.msrepl_errors owner to {owner};
revoke all on msrepl.msrepl_errors from public;
comment on view msrepl.msrepl_errors is 'Failures of merge agents';
