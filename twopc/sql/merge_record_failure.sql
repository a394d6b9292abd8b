-- msrepl.merge_record_failure: records a change of a neighbour that could not be applied here.
-- called by: msrepl.merge_apply
-- tables:    msrepl.msmerge_conflicts_info, msrepl.sysmergearticles; the article's table
-- holes:     owner
--
-- Types 5 and 6 are an insert that failed, in an upload or a download; 7 and 8 a delete, 9 and 10 an update. The id
-- is that of the row and its origin: a change that fails again in a later session is recorded once. is_pending: the
-- change is sent again until it is applied, and was not undone; until then it is recorded here alone.
create or replace function msrepl.merge_record_failure(
    artid uuid, guid uuid, is_gone boolean, "row" text, code text, reason text, is_pending boolean
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    nick constant integer := (select a.nickname from msrepl.sysmergearticles as a where a.artid = $1);
    id constant uuid := md5(concat_ws(' ', nick, guid, peer.replnickname))::uuid;
    is_held boolean;
begin
    execute format('select exists (select from msrepl.%I(array[$1]))', 'msmerge_read_' || replace(artid::text, '-', ''))
        into is_held using guid;
    insert into msrepl.msmerge_conflicts_info as c
        (conflict_id, tablenick, rowguid, origin_datasource, origin_datasource_id, conflict_type, reason_code, reason_text,
         is_pending, recipient)
    values (id, nick, guid, peer.subscriber_server, peer.replnickname,
            case when is_gone then 7 when is_held then 9 else 5 end + case when peer.is_publisher then 1 else 0 end,
            code, reason, $7, (select peer.subscriber_server from msrepl.sysmergearticles as a
                           where a.nickname = nick and a.conflict_logging <> 'publisher' and not peer.is_publisher and not $7))
    on conflict (conflict_id) do update
    set conflict_type = excluded.conflict_type, missing_columns = '{{}}', reason_code = excluded.reason_code, reason_text = excluded.reason_text,
        is_pending = excluded.is_pending, recipient = excluded.recipient, msrepl_create_time = excluded.msrepl_create_time;
    if not is_gone then
        begin
            execute format('select msrepl.%I($1, $2, $3)', 'msmerge_log_' || replace(artid::text, '-', ''))
                using id, guid, "row";
        exception
            when others or assert_failure then
                null;  -- no column of that type accepts the value here: only its reason is recorded
        end;
    end if;
end
$msrepl$;
alter function msrepl.merge_record_failure(uuid, uuid, boolean, text, text, text, boolean) owner to {owner};
revoke all on function msrepl.merge_record_failure(uuid, uuid, boolean, text, text, text, boolean) from public;
comment on function msrepl.merge_record_failure(uuid, uuid, boolean, text, text, text, boolean)
    is 'Records a change that could not be applied';
