-- msmerge_take_<artid>: decides on rows that a neighbour has sent, writes them, and records their metadata.
-- called by: msrepl.merge_apply
-- tables:    the article's table and its part of msrepl.msmerge_metadata; msrepl.msmerge_conflicts_info
-- holes:     function, metadata, tablenick, floor, lock, read, write, log, column_tracking, overwrites, first_is_known,
--            second_is_known, priority, taken, keeps_losers, foreign_rows, path_is_kept, owner, comment
--
-- Rows are locked before their metadata, as by applications; the lock of an existing row serves for both. If each
-- incoming row includes all that is held here of it, as nearly always, the rows replace those held; otherwise that is
-- undone, and each row is decided on. Lineages of up to three replicas are compared in the statement itself: a call for
-- each row would cost more than everything else. Metadata is written before the rows, so that what a user's trigger
-- then changes is recorded on top of it. What was made here, by a merge or a conflict, has no source: the neighbour
-- needs it, too. A row that the neighbour cannot know yet is deferred, and is uploaded by itself. A Subscriber's
-- changes count as its own, whichever writer it names, except for server subscriptions below it.
create or replace function {function}(
    guids uuid[], gones boolean[], lineages text[], colvs text[], writers int8[], rows text[], choices text[],
    out applied integer, out skipped integer, out conflicts integer, out deferred uuid[]
)
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    me constant int8 := (select r.replica from msrepl.msmerge_replica as r);
    confirmed constant pg_snapshot := (
        select g.snap from msrepl.msmerge_genhistory as g where g.generation = peer.sentgen and peer.is_publisher);
    lowest constant integer := (select f.last_value from {floor} as f);
    behind constant int8[] := peer.former || peer.replnickname || array(
        select n.v from msrepl.sysmergesubscriptions as s, unnest(s.former || s.replnickname) as n(v)
        where s.via = peer.subscriber_server);
    others constant int8[] := msrepl.merge_others(peer);
    present uuid[];
    takens text[];
    verdicts text[];
    judgements msrepl.merge_judgement[];
begin
    if not peer.is_publisher and not writers <@ behind then
        writers := array(select case when w.v = any (behind) then w.v else peer.replnickname end
                         from unnest(writers) with ordinality as w(v, place) order by w.place);
    end if;
    present := array(select l.rowguid from {lock}($1) as l);
{path_is_kept}
    if cardinality(present) < cardinality($1) then
        perform from {metadata} as m where m.rowguid = any ($1) order by m.rowguid for update;
    end if;
{foreign_rows}
    if {overwrites} or array_position(choices, 'held') is null then
        begin
            insert into {metadata} as m (tablenick, rowguid, xid, gone, own, top, lineage, colv, source, writer)
            select {tablenick}, i.rowguid, pg_current_xact_id(), i.gone,
                   case when c.is_short then coalesce(c.mine & 2147483647, 0) else l.own end,
                   coalesce(case when c.is_short then c.top else l.top end, lowest),
                   case when c.is_short then array_remove(c.v, c.mine) else l.others end,
                   i.colv::int8[], peer.replnickname, nullif(i.writer, me)
            from unnest($1, $2, $3, $4, $5) as i(rowguid, gone, lineage, colv, writer)
            cross join lateral (select i.lineage::int8[] as v offset 0) as p
            cross join lateral (
                select p.v, t.top,
                       case me when p.v[1] >> 31 then p.v[1] when p.v[2] >> 31 then p.v[2] when p.v[3] >> 31 then p.v[3] end as mine,
                       num_nonnulls(p.v[1], p.v[2], p.v[3]) = cardinality(p.v) and t.top <= 2000000000
                           and coalesce(p.v[1] < p.v[2], true) and coalesce(p.v[2] < p.v[3], true) as is_short
                from (select greatest(p.v[1] & 2147483647, p.v[2] & 2147483647, p.v[3] & 2147483647) as top) as t offset 0) as c
            left join lateral (
                select f.* from msrepl.merge_lineage_parts(c.v, me) as f where c.is_short is not true offset 0) as l on true
            on conflict (rowguid) do update
            set xid = excluded.xid, gone = excluded.gone, own = excluded.own, top = excluded.top, lineage = excluded.lineage,
                colv = excluded.colv, source = excluded.source, writer = excluded.writer
            where {overwrites}
                or case when excluded.own >= m.own and excluded.lineage <> coalesce(m.lineage, '{{}}')
                             and (m.lineage is null or cardinality(m.lineage) < 3 and cardinality(excluded.lineage) < 4
                                  and (m.lineage[1] is null or {first_is_known}) and (m.lineage[2] is null or {second_is_known})) then true
                        else msrepl.merge_precedes(msrepl.merge_lineage(m.lineage, me, m.own),
                                                   msrepl.merge_lineage(excluded.lineage, me, excluded.own)) end;
            get diagnostics applied = row_count;
            if applied < cardinality($1) then
                raise no_data_found;
            end if;
            skipped := 0; conflicts := 0; deferred := '{{}}';
        exception
            when no_data_found then
                applied := null;
        end;
    end if;
    if applied is null then
        judgements := array(
            select row(i.rowguid, i."row", h."row", m.writer, d.verdict, d.conflict, d.taken, d.gone,
                       d.lineage, d.colv, case when d.verdict in ('apply', 'replace') then i.writer
                                               when d.verdict = 'keep' then m.writer end,
                       case when d.conflict is not null then
                           msrepl.merge_conflict_id({tablenick}, i.rowguid,
                               case d.verdict when 'keep' then i.lineage::int8[]
                                              else msrepl.merge_lineage(m.lineage, me, m.own) end,
                               case d.verdict when 'keep' then i."row" else h."row" end) end)::msrepl.merge_judgement
            from unnest($1, $2, $3, $4, $5, $6, $7) as i(rowguid, gone, lineage, colv, writer, "row", choice)
            left join {read}($1) as h on h.rowguid = i.rowguid
            left join lateral (select m.* from {metadata} as m where m.rowguid = i.rowguid offset 0) as m on true
            cross join lateral msrepl.merge_decide(
                case when m.rowguid is not null then h.rowguid is null end, msrepl.merge_lineage(m.lineage, me, m.own), msrepl.merge_colv(m.colv, me),
                coalesce((select s.priority from msrepl.sysmergesubscriptions as s
                          where m.writer = any (s.former || s.replnickname) and s.subscriber_type = 1), 100),
                i.gone, i.lineage::int8[],
                msrepl.merge_unforgotten(i.colv::int8[], i.lineage::int8[], msrepl.merge_lineage(m.lineage, me, m.own), others, lowest),
                {priority},
                me, {column_tracking}, not peer.is_publisher, i."row" is not distinct from h."row",
                i.choice, h.rowguid is not null, pg_visible_in_snapshot(m.xid, confirmed), lowest) as d
            order by i.rowguid);
{path_is_kept}
        perform msrepl.merge_record_conflicts({tablenick}, judgements);
        perform {log}(j.conflict_id, j.rowguid, case j.verdict when 'keep' then j."row" else j.held_row end)
        from unnest(judgements) as j
        where {keeps_losers} and j.conflict is not null and case j.verdict when 'keep' then j."row" else j.held_row end is not null;
{path_is_kept}
        update {metadata} as m
        set xid = pg_current_xact_id(), source = null
        from unnest(judgements) as j
        where j.verdict = 'defer' and m.rowguid = j.rowguid
          and pg_visible_in_snapshot(m.xid, (
              select g.snap from msrepl.msmerge_genhistory as g order by g.generation desc limit 1));
        select count(*) filter (where j.verdict in ('apply', 'merge', 'replace')), count(*) filter (where j.verdict = 'skip'),
               count(*) filter (where j.conflict is not null),
               coalesce(array_agg(j.rowguid) filter (where j.verdict = 'defer'), '{{}}')
        into applied, skipped, conflicts, deferred from unnest(judgements) as j;
        select coalesce(array_agg(j.rowguid), '{{}}'), array_agg(j.gone), array_agg(j.lineage::text), array_agg(j.colv::text),
               array_agg(j.writer), array_agg(j."row"), array_agg({taken}), array_agg(j.verdict)
        into guids, gones, lineages, colvs, writers, rows, takens, verdicts
        from unnest(judgements) as j where j.verdict in ('apply', 'replace', 'merge', 'keep');
        insert into {metadata} as m (tablenick, rowguid, xid, gone, own, top, lineage, colv, source, writer)
        select {tablenick}, i.rowguid, pg_current_xact_id(), i.gone, l.own, coalesce(l.top, lowest), l.others, i.colv::int8[],
               case when i.verdict is null or i.verdict = 'apply' then peer.replnickname end, nullif(i.writer, me)
        from unnest($1, $2, $3, $4, $5, verdicts) as i(rowguid, gone, lineage, colv, writer, verdict)
        cross join lateral msrepl.merge_lineage_parts(i.lineage::int8[], me) as l
        on conflict (rowguid) do update
        set xid = excluded.xid, gone = excluded.gone, own = excluded.own, top = excluded.top, lineage = excluded.lineage,
            colv = excluded.colv, source = excluded.source, writer = excluded.writer;
    end if;
    if verdicts is null and present = $1 and true <> all ($2) then  -- updates, as nearly always: nothing to separate
        perform {write}('{{}}', $1, $6, null, '{{}}', '{{}}');
    else
        perform {write}(
            coalesce(array_agg(w.rowguid) filter (where w.gone and w.is_present), '{{}}'),
            coalesce(array_agg(w.rowguid) filter (where not w.gone and w.is_present), '{{}}'),
            coalesce(array_agg(w."row") filter (where not w.gone and w.is_present), '{{}}'),
            array_agg(w.taken) filter (where not w.gone and w.is_present),
            coalesce(array_agg(w.rowguid) filter (where not w.gone and not w.is_present), '{{}}'),
            coalesce(array_agg(w."row") filter (where not w.gone and not w.is_present), '{{}}'))
        from (
            select i.rowguid, i.gone, i."row", i.taken, h.rowguid is not null as is_present
            from unnest($1, $2, $6, takens, verdicts) as i(rowguid, gone, "row", taken, verdict)
            left join unnest(present) as h(rowguid) on h.rowguid = i.rowguid
            where i.verdict is distinct from 'keep'
        ) as w;
    end if;
{path_is_kept}
end
$msrepl$;
alter function {function}(uuid[], boolean[], text[], text[], int8[], text[], text[]) owner to {owner};
revoke all on function {function}(uuid[], boolean[], text[], text[], int8[], text[], text[]) from public;
comment on function {function}(uuid[], boolean[], text[], text[], int8[], text[], text[]) is {comment};
