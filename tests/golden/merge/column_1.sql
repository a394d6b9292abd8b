-- msrepl.msmerge_metadata_<nickname>: what is known of the changed rows of one article.
-- called by: the triggers of the article
-- tables:    itself
-- holes:     table, tablenick, index, owner
create table "msrepl"."msmerge_metadata_7" partition of msrepl.msmerge_metadata (primary key (rowguid))
    for values in (7) with (fillfactor = 90);
create index "msmerge_metadata_7_xid" on "msrepl"."msmerge_metadata_7" (xid);
alter table "msrepl"."msmerge_metadata_7" owner to "msrepl_owner_0123456789ab";
revoke all on "msrepl"."msmerge_metadata_7" from public;

-- msmerge_ins_<artid>: records the rows that an INSERT has brought.
-- called by: AFTER INSERT trigger of the article's table
-- tables:    transition table inserted; the article's part of msrepl.msmerge_metadata
-- holes:     function, metadata, tablenick, rowguid, first, again, owner, comment
--
-- At the first level of a session in the replica role it is an agent that writes: it brings the metadata too. What
-- a trigger of the user's does there is at a deeper level, and is a change like others. A row that was deleted
-- before goes on above the version of its deletion.
create or replace function "msrepl"."msmerge_ins_00112233445566778899aabbccddeeff"() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $msrepl$
begin
    if pg_trigger_depth() = 1 and current_setting('session_replication_role') = 'replica' then
        return null;
    end if;
    insert into "msrepl"."msmerge_metadata_7" as m (tablenick, rowguid, xid, gone, own, top, colv)
    select 7, n."rowguid", pg_current_xact_id(), false, 1, 1, array_fill(1::int8, array[1])
    from inserted as n
    on conflict (rowguid) do update
    set xid = excluded.xid, gone = false, own = m.top + 1, top = m.top + 1, colv = array_fill((m.top + 1)::int8, array[1]),
        source = null, writer = null;
    return null;
end
$msrepl$;
alter function "msrepl"."msmerge_ins_00112233445566778899aabbccddeeff"() owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."msmerge_ins_00112233445566778899aabbccddeeff"() from public;
comment on function "msrepl"."msmerge_ins_00112233445566778899aabbccddeeff"() is 'Records inserts into t for merge replication';

-- msmerge_upd_<artid>: records the rows that an UPDATE has changed, and which columns of them.
-- called by: AFTER UPDATE trigger of the article's table
-- tables:    transition tables deleted and inserted; the article's part of msrepl.msmerge_metadata
-- holes:     function, metadata, tablenick, rowguid, changed, versions, owner, comment
--
-- Without nested loops: a plan of the join is kept, and one made for few rows would be quadratic for many. Two
-- foreign keys that both hand an update on change a row twice in one statement: it is recorded once.
create or replace function "msrepl"."msmerge_upd_00112233445566778899aabbccddeeff"() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_nestloop = off
as $msrepl$
begin
    if pg_trigger_depth() = 1 and current_setting('session_replication_role') = 'replica' then
        return null;
    end if;
    insert into "msrepl"."msmerge_metadata_7" as m (tablenick, rowguid, xid, gone, own, top, colv)
    select 7, n."rowguid", pg_current_xact_id(), false, 1, 1,
           array[case when bool_or((("o"."c1" operator(pg_catalog.=) "n"."c1" or "o"."c1" is null and "n"."c1" is null)) is not true) then 1::int8 else 0 end]
    from inserted as n join deleted as o on o."rowguid" operator(pg_catalog.=) n."rowguid"
    group by n."rowguid"
    on conflict (rowguid) do update
    set xid = excluded.xid, gone = false, own = m.top + 1, top = m.top + 1,
        colv = array[case excluded.colv[1] when 1 then m.top + 1 else coalesce(m.colv[1], 0) end],
        source = null, writer = null;
    return null;
end
$msrepl$;
alter function "msrepl"."msmerge_upd_00112233445566778899aabbccddeeff"() owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."msmerge_upd_00112233445566778899aabbccddeeff"() from public;
comment on function "msrepl"."msmerge_upd_00112233445566778899aabbccddeeff"() is 'Records updates of t for merge replication';

-- msmerge_del_<artid>: records the rows that a DELETE has taken away.
-- called by: AFTER DELETE trigger of the article's table
-- tables:    transition table deleted; the article's part of msrepl.msmerge_metadata
-- holes:     function, metadata, tablenick, rowguid, owner, comment
create or replace function "msrepl"."msmerge_del_00112233445566778899aabbccddeeff"() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $msrepl$
begin
    if pg_trigger_depth() = 1 and current_setting('session_replication_role') = 'replica' then
        return null;
    end if;
    insert into "msrepl"."msmerge_metadata_7" as m (tablenick, rowguid, xid, gone, own, top)
    select 7, o."rowguid", pg_current_xact_id(), true, 1, 1
    from deleted as o
    on conflict (rowguid) do update
    set xid = excluded.xid, gone = true, own = m.top + 1, top = m.top + 1, source = null, writer = null;
    return null;
end
$msrepl$;
alter function "msrepl"."msmerge_del_00112233445566778899aabbccddeeff"() owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."msmerge_del_00112233445566778899aabbccddeeff"() from public;
comment on function "msrepl"."msmerge_del_00112233445566778899aabbccddeeff"() is 'Records deletes from t for merge replication';

-- msmerge_<operation>_<artid>: has the changes of an article recorded, by applications and by users' triggers.
-- called by: every INSERT, UPDATE or DELETE of the table
-- tables:    the article's table
-- holes:     trigger, event, table, referencing, function
--
-- ALWAYS, for the triggers that fire when an agent writes; the function itself lets an agent's own rows pass.
create trigger "msmerge_ins_00112233445566778899aabbccddeeff"
    after insert on "public"."t"
    referencing new table as inserted
    for each statement execute function "msrepl"."msmerge_ins_00112233445566778899aabbccddeeff"();
alter table "public"."t" enable always trigger "msmerge_ins_00112233445566778899aabbccddeeff";

-- msmerge_<operation>_<artid>: has the changes of an article recorded, by applications and by users' triggers.
-- called by: every INSERT, UPDATE or DELETE of the table
-- tables:    the article's table
-- holes:     trigger, event, table, referencing, function
--
-- ALWAYS, for the triggers that fire when an agent writes; the function itself lets an agent's own rows pass.
create trigger "msmerge_upd_00112233445566778899aabbccddeeff"
    after update on "public"."t"
    referencing old table as deleted new table as inserted
    for each statement execute function "msrepl"."msmerge_upd_00112233445566778899aabbccddeeff"();
alter table "public"."t" enable always trigger "msmerge_upd_00112233445566778899aabbccddeeff";

-- msmerge_<operation>_<artid>: has the changes of an article recorded, by applications and by users' triggers.
-- called by: every INSERT, UPDATE or DELETE of the table
-- tables:    the article's table
-- holes:     trigger, event, table, referencing, function
--
-- ALWAYS, for the triggers that fire when an agent writes; the function itself lets an agent's own rows pass.
create trigger "msmerge_del_00112233445566778899aabbccddeeff"
    after delete on "public"."t"
    referencing old table as deleted
    for each statement execute function "msrepl"."msmerge_del_00112233445566778899aabbccddeeff"();
alter table "public"."t" enable always trigger "msmerge_del_00112233445566778899aabbccddeeff";

-- msmerge_guid_<artid>: refuses an update of the column by which rows are known.
-- called by: every UPDATE of the table that changes the column, a user's BEFORE trigger's too
-- tables:    the article's table
-- holes:     trigger, table, rowguid, name
create trigger "msmerge_guid_00112233445566778899aabbccddeeff"
    after update on "public"."t"
    for each row when (old."rowguid" operator(pg_catalog.<>) new."rowguid")
    execute function msrepl.merge_refuse_rowguid('rowguid');
alter table "public"."t" enable always trigger "msmerge_guid_00112233445566778899aabbccddeeff";

-- trg_mssync_truncate_<table>: refuses TRUNCATE of one replicated table.
-- called by: every TRUNCATE of the table
-- tables:    none
-- holes:     trigger, table
create or replace trigger "trg_mssync_truncate_t"
    before truncate on "public"."t"
    for each statement execute function msrepl.refuse_truncate();

drop trigger if exists "msmerge_ins_00112233445566778899aabbccddeeff" on "public"."t";

drop trigger if exists "msmerge_upd_00112233445566778899aabbccddeeff" on "public"."t";

drop trigger if exists "msmerge_del_00112233445566778899aabbccddeeff" on "public"."t";

drop trigger if exists "msmerge_guid_00112233445566778899aabbccddeeff" on "public"."t";

drop trigger if exists "trg_mssync_truncate_t" on "public"."t";

drop function if exists "msrepl"."msmerge_ins_00112233445566778899aabbccddeeff"();

drop function if exists "msrepl"."msmerge_upd_00112233445566778899aabbccddeeff"();

drop function if exists "msrepl"."msmerge_del_00112233445566778899aabbccddeeff"();

drop table if exists "msrepl"."msmerge_metadata_7";
