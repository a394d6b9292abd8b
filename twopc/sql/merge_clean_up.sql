-- msrepl.merge_clean_up: removes metadata that no node needs any more; returns the number of rows removed.
-- called by: msrepl.merge_end_session, msrepl.merge_settle; twopc.drivers.merge.retention
-- tables:    msrepl.sysmergesubscriptions, msrepl.sysmergearticles, msrepl.msmerge_metadata, msrepl.msmerge_floor_*,
--            msrepl.msmerge_genhistory, msrepl.msmerge_*_partition_mappings, msrepl.msmerge_replica,
--            msrepl.sysmergepublications, pg_locks
-- holes:     owner
--
-- The topmost Publisher removes generations that are older than the retention and a day, and that every Subscriber that
-- has not expired has confirmed; a Subscriber removes those of which its Publisher has removed everything. It
-- corresponds to twopc.merge.retention.forgettable. First the floor of versions is raised. A statement that has read it
-- before, and has not ended, might still give a low version to a row that is removed in the meantime: then nothing is
-- removed this time. A row that a transaction has locked stays, and the generations with it. Nothing waits for a lock.
create or replace function msrepl.merge_clean_up() returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    publisher msrepl.sysmergesubscriptions;
    article msrepl.sysmergearticles;
    upto int8;
    last pg_snapshot;
    highest integer;
    highest_before integer;
    waits text[];
    remaining integer := 0;
    forgotten integer := 0;
    count integer;
begin
    update msrepl.sysmergesubscriptions as s set status = 2
    from (select max(p.retention) as retention from msrepl.sysmergepublications as p having min(p.retention) > 0) as p
    where s.status = 1 and s.login is not null and not s.is_publisher and msrepl.merge_is_expired(s)
        and clock_timestamp() - coalesce(s.last_sync_date, s.subscribed_at) > make_interval(days => 2 * p.retention);
    select s.* into publisher from msrepl.sysmergesubscriptions as s where s.is_publisher;
    select max(g.generation) into upto
    from msrepl.msmerge_genhistory as g
    where g.generation <= all (
            select s.sentgen from msrepl.sysmergesubscriptions as s
            where s.login is not null and not s.is_publisher and s.status = 1 and msrepl.merge_is_expired(s) is not true)
        and case when publisher.is_publisher then g.known_by <= publisher.cleaned_to else g.coldate <= (
            select clock_timestamp() - make_interval(days => max(p.retention) + 1)
            from msrepl.sysmergepublications as p having min(p.retention) > 0) end;
    if upto is null or upto <= (select r.cleaned from msrepl.msmerge_replica as r) then
        return 0;
    end if;
    select g.snap into last from msrepl.msmerge_genhistory as g where g.generation = upto;

    for article in select a.* from msrepl.sysmergearticles as a order by a.nickname loop
        select max(m.top) into highest from msrepl.msmerge_metadata as m
        where m.tablenick = article.nickname and m.xid < pg_snapshot_xmax(last) and pg_visible_in_snapshot(m.xid, last);
        execute format('select f.last_value from msrepl.%I as f', 'msmerge_floor_' || article.nickname) into highest_before;
        waits := article.cleanup_waits;
        if highest > highest_before then
            perform setval(format('msrepl.%I', 'msmerge_floor_' || article.nickname)::regclass, highest);
            waits := array(select l.virtualtransaction from pg_locks as l
                           where l.relation = article.objid and l.mode = 'RowExclusiveLock' and l.pid <> pg_backend_pid()
                             and l.database = (select d.oid from pg_database as d where d.datname = current_database()));
        end if;
        waits := array(select w.v from unnest(waits) as w(v)
                       where exists (select from pg_locks as l where l.virtualtransaction = w.v));
        update msrepl.sysmergearticles as a set cleanup_waits = waits
        where a.artid = article.artid and a.cleanup_waits is distinct from waits;
        remaining := remaining + cardinality(waits);
    end loop;
    if remaining > 0 then
        return 0;
    end if;

    for article in select a.* from msrepl.sysmergearticles as a order by a.nickname loop
        delete from msrepl.msmerge_metadata as m
        where m.tablenick = article.nickname and m.rowguid = any (array(
            select o.rowguid from msrepl.msmerge_metadata as o
            where o.tablenick = article.nickname and o.xid < pg_snapshot_xmax(last) and pg_visible_in_snapshot(o.xid, last)
            for update skip locked));
        get diagnostics count = row_count;
        forgotten := forgotten + count;
    end loop;
    if not exists (select from msrepl.msmerge_metadata as m
                   where m.xid < pg_snapshot_xmax(last) and pg_visible_in_snapshot(m.xid, last)) then
        delete from msrepl.msmerge_genhistory as g where g.generation > 0 and g.generation < upto;
        update msrepl.msmerge_replica as r set cleaned = upto;
        delete from msrepl.msmerge_past_partition_mappings as p
        where p.generation <= upto and not exists (  -- rows that stay where they do not belong remain known
            select from msrepl.sysmergearticles as a join msrepl.sysmergepartitioninfo as i on i.artid = a.artid
            where a.nickname = p.tablenick and not i.allow_partition_realignment);
        delete from msrepl.msmerge_generation_partition_mappings as p where p.generation <= upto;
    end if;
    return forgotten;
end
$msrepl$;
alter function msrepl.merge_clean_up() owner to {owner};
revoke all on function msrepl.merge_clean_up() from public;
comment on function msrepl.merge_clean_up() is 'Removes metadata that no node needs any more';
