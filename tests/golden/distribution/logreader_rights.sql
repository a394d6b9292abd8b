-- Rights of the log reader's role at the Publisher, besides reading the log.
-- called by: twopc.publisher.publication
-- tables:    msrepl.sysarticles
-- holes:     logreader
grant usage on schema msrepl to "msrepl_logreader_01";
grant select on msrepl.sysarticles to "msrepl_logreader_01";
grant execute on function msrepl.filter_rows(integer, text[]), msrepl.forget_calls() to "msrepl_logreader_01";
grant execute on function pg_log_standby_snapshot() to "msrepl_logreader_01";
