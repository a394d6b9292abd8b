-- msrepl.merge_clean_conflicts: removes conflicts that are older than the retention of their article.
-- called by: msrepl.merge_end_session, msrepl.merge_settle; administrators
-- tables:    msrepl.msmerge_conflicts_info, msrepl.sysmergearticles, the articles' tables of conflicts
-- holes:     owner
--
-- Returns how many were removed. conflict_retention is in days; 0 keeps conflicts for ever.
create or replace function msrepl.merge_clean_conflicts() returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    article record;
    stale uuid[];
    forgotten bigint := 0;
begin
    for article in select a.nickname, a.conflict_table, a.conflict_retention from msrepl.sysmergearticles as a
                   where a.conflict_retention > 0
    loop
        with gone as (
            delete from msrepl.msmerge_conflicts_info as c
            where c.tablenick = article.nickname
              and c.msrepl_create_time < clock_timestamp() - make_interval(days => article.conflict_retention)
            returning c.conflict_id)
        select array_agg(g.conflict_id) into stale from gone as g;
        continue when stale is null;
        forgotten := forgotten + cardinality(stale);
        execute format('delete from msrepl.%I where msrepl_conflict_id = any ($1)', article.conflict_table) using stale;
    end loop;
    return forgotten;
end
$msrepl$;
alter function msrepl.merge_clean_conflicts() owner to {owner};
revoke all on function msrepl.merge_clean_conflicts() from public;
comment on function msrepl.merge_clean_conflicts() is 'Forgets conflicts that are older than their article keeps them';
