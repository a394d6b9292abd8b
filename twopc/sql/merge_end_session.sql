-- msrepl.merge_end_session: records a session of the neighbour's, and removes what no node needs any more.
-- called by: merge agents, at a Publisher
-- tables:    msrepl.msmerge_sessions, msrepl.msmerge_articlehistory, msrepl.sysmergesubscriptions,
--            msrepl.sysmergearticles, msrepl.msmerge_replica; see msrepl.merge_clean_up, msrepl.merge_clean_conflicts
-- holes:     owner
--
-- Returns the generation up to which this node has removed metadata. error is NULL unless the session has failed.
-- Sessions are kept for fourteen days. The record of a session that has removed nothing may be lost in a crash.
create or replace function msrepl.merge_end_session(
    duration real, resumed boolean, anew boolean, error text, artids uuid[], phases smallint[], counts integer[],
    deletes integer[], conflicts integer[], deferred integer[], retried integer[]
) returns int8
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    name constant text := (msrepl.merge_neighbour()).subscriber_server;
    forgotten integer := 0;
    id int8;
begin
    if $4 is null then
        update msrepl.sysmergesubscriptions as s set last_sync_date = clock_timestamp() where s.subscriber_server = name;
        forgotten := msrepl.merge_clean_up();
        perform msrepl.merge_clean_conflicts();
    end if;
    if forgotten = 0 then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    insert into msrepl.msmerge_sessions as s (
        subscriber_server, start_time, end_time, duration, upload_rows, download_rows, conflicts, rows_deferred, rows_retried,
        metadata_rows_cleanedup, resumed, anew, runstatus, error)
    select name, clock_timestamp() - make_interval(secs => $1), clock_timestamp(), $1,
           coalesce(sum(c.rows) filter (where c.phase = 1), 0), coalesce(sum(c.rows) filter (where c.phase = 2), 0),
           coalesce(sum(c.conflicts), 0), coalesce(sum(c.deferred), 0), coalesce(sum(c.retried), 0), forgotten, $2, $3,
           case when $4 is null then 2 else 6 end, $4
    from unnest($6, $7, $9, $10, $11) as c(phase, rows, conflicts, deferred, retried)
    returning s.session_id into id;
    insert into msrepl.msmerge_articlehistory
        (session_id, phase_id, article_name, rows, deletes, conflicts, rows_deferred, rows_retried)
    select id, c.phase, a.source_schema || '.' || a.source_object, c.rows, c.deletes, c.conflicts, c.deferred, c.retried
    from unnest($5, $6, $7, $8, $9, $10, $11) as c(artid, phase, rows, deletes, conflicts, deferred, retried)
    join msrepl.sysmergearticles as a on a.artid = c.artid;
    delete from msrepl.msmerge_sessions as s where s.end_time < clock_timestamp() - interval '14 days';
    return (select r.cleaned from msrepl.msmerge_replica as r);
end
$msrepl$;
alter function msrepl.merge_end_session(real, boolean, boolean, text, uuid[], smallint[], integer[], integer[], integer[], integer[], integer[]) owner to {owner};
revoke all on function msrepl.merge_end_session(real, boolean, boolean, text, uuid[], smallint[], integer[], integer[], integer[], integer[], integer[]) from public;
comment on function msrepl.merge_end_session(real, boolean, boolean, text, uuid[], smallint[], integer[], integer[], integer[], integer[], integer[])
    is 'Records a session, and forgets what nobody needs any more';
