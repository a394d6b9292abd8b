-- msrepl.msmerge_history: the result of each session, in words.
-- called by: administrators
-- tables:    msrepl.msmerge_sessions
-- holes:     owner
create or replace view msrepl.msmerge_history as
select m.session_id, m.subscriber_server as subscriber, m.start_time, m.end_time as "time", m.duration, m.runstatus,
       coalesce(m.error, format('uploaded %s, downloaded %s, %s conflicts, %s deferred, %s retried',
                                m.upload_rows, m.download_rows, m.conflicts, m.rows_deferred, m.rows_retried)) as comments
from msrepl.msmerge_sessions as m;
alter view msrepl.msmerge_history owner to {owner};
revoke all on msrepl.msmerge_history from public;
comment on view msrepl.msmerge_history is 'Sessions that have ended here, in words';
