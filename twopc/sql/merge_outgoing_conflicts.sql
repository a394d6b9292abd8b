-- msrepl.merge_outgoing_conflicts: conflicts that are to be recorded at the session's Subscriber, and are not yet.
-- called by: merge agents, at a Publisher
-- tables:    msrepl.msmerge_conflicts_info, msrepl.sysmergearticles, the articles' tables of conflicts
-- holes:     owner
create or replace function msrepl.merge_outgoing_conflicts()
returns table (
    conflict_id uuid, artid uuid, rowguid uuid, origin text, origin_id int8, conflict_type smallint, code text, reason text,
    winner text, at timestamptz, "row" text
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    article msrepl.sysmergearticles;
begin
    for article in select a.* from msrepl.sysmergearticles as a where a.conflict_logging <> 'publisher' order by a.nickname
    loop
        return query execute format(
            'select c.conflict_id, $1, c.rowguid, c.origin_datasource, c.origin_datasource_id, c.conflict_type,'
            ' c.reason_code, c.reason_text, c.winner, c.msrepl_create_time, l.v'
            ' from msrepl.msmerge_conflicts_info as c'
            ' left join (select t.msrepl_conflict_id as id, row(%s)::text as v from msrepl.%I as t) as l on l.id = c.conflict_id'
            ' where c.tablenick = $2 and c.recipient = $3',
            (select string_agg(format('t.%I', n.name), ', ' order by n.place)
             from unnest(article.columns) with ordinality as n(name, place)),
            article.conflict_table)
        using article.artid, article.nickname, peer.subscriber_server;
    end loop;
end
$msrepl$;
alter function msrepl.merge_outgoing_conflicts() owner to {owner};
revoke all on function msrepl.merge_outgoing_conflicts() from public;
comment on function msrepl.merge_outgoing_conflicts() is 'Conflicts that are to be on record at a Subscriber';
