-- msrepl.merge_forget_failures: removes failures of a neighbour's changes that have not failed again
-- in this transaction.
-- called by: msrepl.merge_receive
-- tables:    msrepl.msmerge_conflicts_info, msrepl.sysmergearticles, the articles' tables of conflicts
-- holes:     owner
--
-- A change that has failed is sent in every generation until it is applied, or another has replaced it. Resolving its
-- failure manually after that would put an old row over a newer one. Failures whose changes were undone stay on record.
create or replace function msrepl.merge_forget_failures() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    past record;
begin
    for past in
        with gone as (
            delete from msrepl.msmerge_conflicts_info as c
            where c.is_pending and c.origin_datasource_id = any (peer.former || peer.replnickname)
              and c.msrepl_create_time < now()
            returning c.conflict_id, c.tablenick)
        select g.conflict_id, a.conflict_table from gone as g join msrepl.sysmergearticles as a on a.nickname = g.tablenick
    loop
        execute format('delete from msrepl.%I where msrepl_conflict_id = $1', past.conflict_table) using past.conflict_id;
    end loop;
end
$msrepl$;
alter function msrepl.merge_forget_failures() owner to {owner};
revoke all on function msrepl.merge_forget_failures() from public;
comment on function msrepl.merge_forget_failures() is 'Forgets failures of changes that were applied at last';
