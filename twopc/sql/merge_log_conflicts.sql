-- msrepl.merge_log_conflicts: records conflicts that the Publisher has resolved.
-- called by: merge agents, at a Subscriber
-- tables:    msrepl.msmerge_conflicts_info, msrepl.sysmergearticles; see msmerge_log_<artid>
-- holes:     owner
--
-- A conflict that arrives twice, because a session was interrupted, is recorded once.
create or replace function msrepl.merge_log_conflicts(
    ids uuid[], artids uuid[], guids uuid[], origins text[], origin_ids int8[], types smallint[], codes text[],
    reasons text[], winners text[], times timestamptz[], rows text[]
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    place integer;
begin
    if not peer.is_publisher then
        raise exception '% is no Publisher of this node', peer.subscriber_server using errcode = 'insufficient_privilege';
    end if;
    insert into msrepl.msmerge_conflicts_info as c
        (conflict_id, tablenick, rowguid, origin_datasource, origin_datasource_id, conflict_type, reason_code, reason_text,
         winner, msrepl_create_time)
    select i.id, a.nickname, i.guid, i.origin, i.origin_id, i.kind, i.code, i.reason, i.winner, i.at
    from unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) as i(id, artid, guid, origin, origin_id, kind, code, reason, winner, at)
    join msrepl.sysmergearticles as a on a.artid = i.artid
    on conflict (conflict_id) do update
    set conflict_type = excluded.conflict_type, missing_columns = '{{}}', reason_code = excluded.reason_code, reason_text = excluded.reason_text,
        winner = excluded.winner, msrepl_create_time = excluded.msrepl_create_time;
    for place in select i.place from unnest($11) with ordinality as i("row", place) where i."row" is not null loop
        execute format('select msrepl.%I($1, $2, $3)', 'msmerge_log_' || replace(artids[place]::text, '-', ''))
            using ids[place], guids[place], rows[place];
    end loop;
end
$msrepl$;
alter function msrepl.merge_log_conflicts(uuid[], uuid[], uuid[], text[], int8[], smallint[], text[], text[], text[], timestamptz[], text[]) owner to {owner};
revoke all on function msrepl.merge_log_conflicts(uuid[], uuid[], uuid[], text[], int8[], smallint[], text[], text[], text[], timestamptz[], text[]) from public;
comment on function msrepl.merge_log_conflicts(uuid[], uuid[], uuid[], text[], int8[], smallint[], text[], text[], text[], timestamptz[], text[])
    is 'Puts conflicts on record that the Publisher has resolved';
