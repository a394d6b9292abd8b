-- msmerge_amend_<artid>: sets values in rows as a change of this node: those that a resolver or a handler
-- has decided on.
-- called by: merge agents, after merge_apply in the same transaction
-- tables:    the article's part of msrepl.msmerge_metadata
-- holes:     function, metadata, write, column_tracking, count, path_is_kept, owner, comment
--
-- takens says which columns of each row are set. Our trigger ignores an agent's own changes, so their metadata is
-- written here as it would be for an application's UPDATE.
create or replace function {function}(guids uuid[], rows text[], takens text[]) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
begin
    perform msrepl.merge_neighbour();
    perform {write}('{{}}', $1, $2, $3, '{{}}', '{{}}');
{path_is_kept}
    update {metadata} as m
    set xid = pg_current_xact_id(), own = m.top + 1, top = m.top + 1, source = null, writer = null,
        colv = case when {column_tracking} then array(
            select case when (a.taken::boolean[])[p.place] then m.top + 1 else coalesce(m.colv[p.place], 0) end
            from generate_series(1, {count}) as p(place) order by p.place) end
    from unnest($1, $3) as a(guid, taken)
    where m.rowguid = a.guid;
end
$msrepl$;
alter function {function}(uuid[], text[], text[]) owner to {owner};
revoke all on function {function}(uuid[], text[], text[]) from public;
comment on function {function}(uuid[], text[], text[]) is {comment};
