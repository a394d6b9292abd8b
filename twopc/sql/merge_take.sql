-- msmerge_take_<artid>: decides about rows that a neighbour has sent, writes them, and records what is known of them.
-- called by: msrepl.merge_apply
-- tables:    the article's table and its part of msrepl.msmerge_metadata; msrepl.msmerge_conflicts_info
-- holes:     function, metadata, tablenick, lock, write, log, column_tracking, path_is_kept, owner, comment
--
-- Rows are locked before their metadata, as applications do. What was made here, by a merge or a conflict, has no
-- source: the neighbour needs it, too. A row that the neighbour cannot know yet is left, and goes up by itself.
create or replace function {function}(
    guids uuid[], gones boolean[], lineages text[], colvs text[], writers int8[], rows text[], choices text[],
    out applied integer, out skipped integer, out conflicts integer, out deferred integer
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    me constant int8 := (select r.replica from msrepl.msmerge_replica as r);
    known constant pg_snapshot := (
        select g.snap from msrepl.msmerge_genhistory as g order by g.generation desc limit 1);
    held_guids uuid[];
    held_rows text[];
    found_rows msrepl.merge_judgement[];
begin
    select array_agg(l.rowguid), array_agg(l."row") into held_guids, held_rows from {lock}($1) as l;
{path_is_kept}
    perform from {metadata} as m where m.rowguid = any ($1) order by m.rowguid for update;
    found_rows := array(
        select row(i.rowguid, i."row", h."row", h.rowguid is not null, m.writer, d.verdict, d.conflict, d.taken, d.gone,
                   d.lineage, d.colv, case when d.verdict in ('apply', 'replace') then i.writer
                                           when d.verdict = 'keep' then m.writer end,
                   case when d.conflict is not null then gen_random_uuid() end)::msrepl.merge_judgement
        from unnest($1, $2, $3::text[], $4::text[], $5, $6, $7) as i(rowguid, gone, lineage, colv, writer, "row", choice)
        left join unnest(held_guids, held_rows) as h(rowguid, "row") on h.rowguid = i.rowguid
        left join {metadata} as m on m.rowguid = i.rowguid
        cross join lateral msrepl.merge_decide(
            m.gone, case when m.own = 0 then m.lineage else msrepl.merge_lineage(m.lineage, me, m.own) end,
            msrepl.merge_colv(m.colv, me),
            coalesce((select s.priority from msrepl.sysmergesubscriptions as s
                      where m.writer = any (s.former || s.replnickname) and s.subscriber_type = 1), 100),
            i.gone, i.lineage::int8[], i.colv::int8[],
            case when peer.subscriber_type = 1 then peer.priority else 0 end,
            me, {column_tracking}, not peer.is_publisher, i."row" is not distinct from h."row",
            i.choice, h.rowguid is not null) as d
        order by i.rowguid);

    insert into msrepl.msmerge_conflicts_info
        (conflict_id, tablenick, rowguid, origin_datasource, conflict_type, reason_code, reason_text, winner)
    select f.conflict_id, {tablenick}, f.rowguid, case f.verdict when 'keep' then peer.subscriber_server else h.name end,
           f.conflict, f.conflict::text,
           format('%s of %s lost against %s', case when f.conflict < 3 then 'the update' else 'the change' end,
                  case f.verdict when 'keep' then peer.subscriber_server else h.name end,
                  case f.verdict when 'keep' then h.name else peer.subscriber_server end),
           case f.verdict when 'keep' then h.name else peer.subscriber_server end
    from unnest(found_rows) as f
    cross join lateral (
        select coalesce(
            (select s.subscriber_server from msrepl.sysmergesubscriptions as s
             where f.held_writer = any (s.former || s.replnickname)),
            (select s.subscriber_server from msrepl.sysmergesubscriptions as s where s.is_self)) as name
    ) as h
    where f.conflict is not null;
    perform {log}(f.conflict_id, f.rowguid, case f.verdict when 'keep' then f."row" else f.held_row end)
    from unnest(found_rows) as f
    where f.conflict is not null and case f.verdict when 'keep' then f."row" else f.held_row end is not null;
{path_is_kept}
    perform {write}(
        array(select f.rowguid from unnest(found_rows) as f
              where f.verdict in ('apply', 'replace') and f.gone and f.is_present),
        u.guids, u.rows, u.takens, n.guids, n.rows)
    from (select coalesce(array_agg(f.rowguid), '{{}}') as guids, coalesce(array_agg(f."row"), '{{}}') as rows,
                 coalesce(array_agg(f.taken::text), '{{}}') as takens
          from unnest(found_rows) as f
          where f.verdict in ('apply', 'replace', 'merge') and not f.gone and f.is_present) as u,
         (select coalesce(array_agg(f.rowguid), '{{}}') as guids, coalesce(array_agg(f."row"), '{{}}') as rows
          from unnest(found_rows) as f
          where f.verdict in ('apply', 'replace') and not f.gone and not f.is_present) as n;
{path_is_kept}
    insert into {metadata} as m (tablenick, rowguid, xid, gone, own, top, lineage, colv, source, writer)
    select {tablenick}, f.rowguid, pg_current_xact_id(), f.gone,
           coalesce((select v.v & 2147483647 from unnest(f.lineage) as v(v) where v.v >> 31 = me), 0),
           (select max(v.v & 2147483647) from unnest(f.lineage) as v(v)),
           array(select v.v from unnest(f.lineage) as v(v) where v.v >> 31 <> me order by v.v),
           f.colv, case f.verdict when 'apply' then peer.replnickname end, nullif(f.writer, me)
    from unnest(found_rows) as f
    where f.verdict in ('apply', 'replace', 'merge', 'keep')
    on conflict (rowguid) do update
    set xid = excluded.xid, gone = excluded.gone, own = excluded.own, top = excluded.top, lineage = excluded.lineage,
        colv = excluded.colv, source = excluded.source, writer = excluded.writer;
    update {metadata} as m
    set xid = pg_current_xact_id(), source = null
    from unnest(found_rows) as f
    where f.verdict = 'defer' and m.rowguid = f.rowguid and pg_visible_in_snapshot(m.xid, known);
    select count(*) filter (where f.verdict in ('apply', 'merge', 'replace')), count(*) filter (where f.verdict = 'skip'),
           count(*) filter (where f.conflict is not null), count(*) filter (where f.verdict = 'defer')
    into applied, skipped, conflicts, deferred from unnest(found_rows) as f;
end
$msrepl$;
alter function {function}(uuid[], boolean[], text[], text[], int8[], text[], text[]) owner to {owner};
revoke all on function {function}(uuid[], boolean[], text[], text[], int8[], text[], text[]) from public;
comment on function {function}(uuid[], boolean[], text[], text[], int8[], text[], text[]) is {comment};
