-- msrepl.merge_record_conflicts: records which node lost each conflict of a slice, and which one won.
-- called by: msmerge_take_<artid>
-- tables:    msrepl.msmerge_conflicts_info, msrepl.sysmergesubscriptions, msrepl.sysmergearticles
-- holes:     owner
create or replace function msrepl.merge_record_conflicts(tablenick integer, judgements msrepl.merge_judgement[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
begin
    insert into msrepl.msmerge_conflicts_info
        (conflict_id, tablenick, rowguid, origin_datasource, origin_datasource_id, conflict_type, reason_code, reason_text,
         winner, recipient)
    select j.conflict_id, $1, j.rowguid, case j.verdict when 'keep' then peer.subscriber_server else h.name end,
           case j.verdict when 'keep' then peer.replnickname else h.replica end, j.conflict, j.conflict::text,
           format('%s of %s lost against %s', case when j.conflict < 3 then 'the update' else 'the change' end,
                  case j.verdict when 'keep' then peer.subscriber_server else h.name end,
                  case j.verdict when 'keep' then h.name else peer.subscriber_server end),
           case j.verdict when 'keep' then h.name else peer.subscriber_server end,
           (select peer.subscriber_server from msrepl.sysmergearticles as a
            where a.nickname = $1 and a.conflict_logging <> 'publisher')
    from unnest($2) as j
    cross join lateral (
        select s.subscriber_server, s.replnickname from msrepl.sysmergesubscriptions as s
        where s.is_self or j.held_writer = any (s.former || s.replnickname)
        order by s.is_self limit 1
    ) as h(name, replica)
    where j.conflict is not null
    on conflict (conflict_id) do update
    set conflict_type = excluded.conflict_type, missing_columns = '{{}}', reason_code = excluded.reason_code, reason_text = excluded.reason_text,
        winner = excluded.winner, recipient = excluded.recipient, msrepl_create_time = excluded.msrepl_create_time;
end
$msrepl$;
alter function msrepl.merge_record_conflicts(integer, msrepl.merge_judgement[]) owner to {owner};
revoke all on function msrepl.merge_record_conflicts(integer, msrepl.merge_judgement[]) from public;
comment on function msrepl.merge_record_conflicts(integer, msrepl.merge_judgement[]) is 'Records the conflicts of a slice';
