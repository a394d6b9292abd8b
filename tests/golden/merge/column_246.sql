-- msrepl.msmerge_metadata_<nickname>: what is known of the changed rows of one article.
-- called by: the triggers of the article
-- tables:    itself
-- holes:     table, tablenick, index, owner
create table "msrepl"."msmerge_metadata_7" partition of msrepl.msmerge_metadata (primary key (rowguid))
    for values in (7) with (fillfactor = 90);
create index "msmerge_metadata_7_xid" on "msrepl"."msmerge_metadata_7" (xid);
alter table "msrepl"."msmerge_metadata_7" owner to "msrepl_owner_0123456789ab";
revoke all on "msrepl"."msmerge_metadata_7" from public;

-- msrepl.msmerge_floor_<nickname>: the highest version of a row of one article of which is forgotten what was known.
-- called by: the triggers of the article; msrepl.merge_clean_up
-- tables:    itself
-- holes:     sequence, owner
--
-- A row of which nothing is known goes on above it. A sequence, because its value is read as it is now, whatever the
-- snapshot of the application: one that began before a clean-up must not give a version again.
create sequence "msrepl"."msmerge_floor_7" as integer minvalue 0 start 0;
alter sequence "msrepl"."msmerge_floor_7" owner to "msrepl_owner_0123456789ab";
revoke all on "msrepl"."msmerge_floor_7" from public;

-- msmerge_ins_<artid>: records the rows that an INSERT has brought.
-- called by: AFTER INSERT trigger of the article's table
-- tables:    transition table inserted; the article's part of msrepl.msmerge_metadata, msrepl.msmerge_floor_<nickname>
-- holes:     function, metadata, tablenick, floor, rowguid, first, again, owner, comment
--
-- At the first level of a session in the replica role it is an agent that writes: it brings the metadata too. What
-- a trigger of the user's does there is at a deeper level, and is a change like others. A row that was deleted
-- before goes on above the version of its deletion.
create or replace function "msrepl"."msmerge_ins_00112233445566778899aabbccddeeff"() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $msrepl$
declare
    first_version integer;
begin
    if pg_trigger_depth() = 1 and current_setting('session_replication_role') = 'replica' then
        return null;
    end if;
    first_version := (select f.last_value + 1 from "msrepl"."msmerge_floor_7" as f);
    insert into "msrepl"."msmerge_metadata_7" as m (tablenick, rowguid, xid, gone, own, top, colv)
    select 7, n."rowguid", pg_current_xact_id(), false, first_version, first_version, array_fill(first_version::int8, array[246])
    from inserted as n
    on conflict (rowguid) do update
    set xid = excluded.xid, gone = false, own = m.top + 1, top = m.top + 1, colv = array_fill((m.top + 1)::int8, array[246]),
        source = null, writer = null;
    return null;
end
$msrepl$;
alter function "msrepl"."msmerge_ins_00112233445566778899aabbccddeeff"() owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."msmerge_ins_00112233445566778899aabbccddeeff"() from public;
comment on function "msrepl"."msmerge_ins_00112233445566778899aabbccddeeff"() is 'Records inserts into t for merge replication';

-- msmerge_upd_<artid>: records the rows that an UPDATE has changed, and which columns of them.
-- called by: AFTER UPDATE trigger of the article's table
-- tables:    transition tables deleted and inserted; the article's part of msrepl.msmerge_metadata, msrepl.msmerge_floor_<nickname>; pg_constraint
-- holes:     function, metadata, tablenick, floor, rowguid, changed, changed_ever, versions, owner, comment
--
-- Without nested loops: a plan of the join is kept, and one made for few rows would be quadratic for many. Two
-- foreign keys that both hand an update on change a row twice in one statement: it is recorded once. Others do not
-- pay for that. Values are compared as they are stored: equality says that 1.0 is 1.00, and a cast to text, where a
-- type has no equality, is code of whoever made the type.
create or replace function "msrepl"."msmerge_upd_00112233445566778899aabbccddeeff"() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off set enable_nestloop = off
as $msrepl$
declare
    first_version integer;
begin
    if pg_trigger_depth() = 1 and current_setting('session_replication_role') = 'replica' then
        return null;
    end if;
    first_version := (select f.last_value + 1 from "msrepl"."msmerge_floor_7" as f);
    if exists (select from pg_constraint as c where c.conrelid = tg_relid and c.contype = 'f'
               and (c.confupdtype in ('c', 'n', 'd') or c.confdeltype in ('n', 'd'))) then
        insert into "msrepl"."msmerge_metadata_7" as m (tablenick, rowguid, xid, gone, own, top, colv)
        select 7, n."rowguid", pg_current_xact_id(), false, first_version, first_version,
               array[(bool_or(row("o"."c1")::record operator(pg_catalog.*<>) row("n"."c1")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c2")::record operator(pg_catalog.*<>) row("n"."c2")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c3")::record operator(pg_catalog.*<>) row("n"."c3")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c4")::record operator(pg_catalog.*<>) row("n"."c4")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c5")::record operator(pg_catalog.*<>) row("n"."c5")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c6")::record operator(pg_catalog.*<>) row("n"."c6")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c7")::record operator(pg_catalog.*<>) row("n"."c7")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c8")::record operator(pg_catalog.*<>) row("n"."c8")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c9")::record operator(pg_catalog.*<>) row("n"."c9")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c10")::record operator(pg_catalog.*<>) row("n"."c10")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c11")::record operator(pg_catalog.*<>) row("n"."c11")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c12")::record operator(pg_catalog.*<>) row("n"."c12")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c13")::record operator(pg_catalog.*<>) row("n"."c13")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c14")::record operator(pg_catalog.*<>) row("n"."c14")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c15")::record operator(pg_catalog.*<>) row("n"."c15")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c16")::record operator(pg_catalog.*<>) row("n"."c16")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c17")::record operator(pg_catalog.*<>) row("n"."c17")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c18")::record operator(pg_catalog.*<>) row("n"."c18")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c19")::record operator(pg_catalog.*<>) row("n"."c19")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c20")::record operator(pg_catalog.*<>) row("n"."c20")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c21")::record operator(pg_catalog.*<>) row("n"."c21")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c22")::record operator(pg_catalog.*<>) row("n"."c22")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c23")::record operator(pg_catalog.*<>) row("n"."c23")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c24")::record operator(pg_catalog.*<>) row("n"."c24")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c25")::record operator(pg_catalog.*<>) row("n"."c25")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c26")::record operator(pg_catalog.*<>) row("n"."c26")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c27")::record operator(pg_catalog.*<>) row("n"."c27")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c28")::record operator(pg_catalog.*<>) row("n"."c28")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c29")::record operator(pg_catalog.*<>) row("n"."c29")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c30")::record operator(pg_catalog.*<>) row("n"."c30")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c31")::record operator(pg_catalog.*<>) row("n"."c31")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c32")::record operator(pg_catalog.*<>) row("n"."c32")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c33")::record operator(pg_catalog.*<>) row("n"."c33")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c34")::record operator(pg_catalog.*<>) row("n"."c34")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c35")::record operator(pg_catalog.*<>) row("n"."c35")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c36")::record operator(pg_catalog.*<>) row("n"."c36")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c37")::record operator(pg_catalog.*<>) row("n"."c37")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c38")::record operator(pg_catalog.*<>) row("n"."c38")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c39")::record operator(pg_catalog.*<>) row("n"."c39")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c40")::record operator(pg_catalog.*<>) row("n"."c40")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c41")::record operator(pg_catalog.*<>) row("n"."c41")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c42")::record operator(pg_catalog.*<>) row("n"."c42")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c43")::record operator(pg_catalog.*<>) row("n"."c43")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c44")::record operator(pg_catalog.*<>) row("n"."c44")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c45")::record operator(pg_catalog.*<>) row("n"."c45")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c46")::record operator(pg_catalog.*<>) row("n"."c46")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c47")::record operator(pg_catalog.*<>) row("n"."c47")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c48")::record operator(pg_catalog.*<>) row("n"."c48")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c49")::record operator(pg_catalog.*<>) row("n"."c49")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c50")::record operator(pg_catalog.*<>) row("n"."c50")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c51")::record operator(pg_catalog.*<>) row("n"."c51")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c52")::record operator(pg_catalog.*<>) row("n"."c52")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c53")::record operator(pg_catalog.*<>) row("n"."c53")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c54")::record operator(pg_catalog.*<>) row("n"."c54")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c55")::record operator(pg_catalog.*<>) row("n"."c55")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c56")::record operator(pg_catalog.*<>) row("n"."c56")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c57")::record operator(pg_catalog.*<>) row("n"."c57")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c58")::record operator(pg_catalog.*<>) row("n"."c58")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c59")::record operator(pg_catalog.*<>) row("n"."c59")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c60")::record operator(pg_catalog.*<>) row("n"."c60")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c61")::record operator(pg_catalog.*<>) row("n"."c61")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c62")::record operator(pg_catalog.*<>) row("n"."c62")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c63")::record operator(pg_catalog.*<>) row("n"."c63")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c64")::record operator(pg_catalog.*<>) row("n"."c64")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c65")::record operator(pg_catalog.*<>) row("n"."c65")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c66")::record operator(pg_catalog.*<>) row("n"."c66")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c67")::record operator(pg_catalog.*<>) row("n"."c67")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c68")::record operator(pg_catalog.*<>) row("n"."c68")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c69")::record operator(pg_catalog.*<>) row("n"."c69")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c70")::record operator(pg_catalog.*<>) row("n"."c70")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c71")::record operator(pg_catalog.*<>) row("n"."c71")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c72")::record operator(pg_catalog.*<>) row("n"."c72")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c73")::record operator(pg_catalog.*<>) row("n"."c73")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c74")::record operator(pg_catalog.*<>) row("n"."c74")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c75")::record operator(pg_catalog.*<>) row("n"."c75")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c76")::record operator(pg_catalog.*<>) row("n"."c76")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c77")::record operator(pg_catalog.*<>) row("n"."c77")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c78")::record operator(pg_catalog.*<>) row("n"."c78")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c79")::record operator(pg_catalog.*<>) row("n"."c79")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c80")::record operator(pg_catalog.*<>) row("n"."c80")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c81")::record operator(pg_catalog.*<>) row("n"."c81")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c82")::record operator(pg_catalog.*<>) row("n"."c82")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c83")::record operator(pg_catalog.*<>) row("n"."c83")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c84")::record operator(pg_catalog.*<>) row("n"."c84")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c85")::record operator(pg_catalog.*<>) row("n"."c85")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c86")::record operator(pg_catalog.*<>) row("n"."c86")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c87")::record operator(pg_catalog.*<>) row("n"."c87")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c88")::record operator(pg_catalog.*<>) row("n"."c88")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c89")::record operator(pg_catalog.*<>) row("n"."c89")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c90")::record operator(pg_catalog.*<>) row("n"."c90")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c91")::record operator(pg_catalog.*<>) row("n"."c91")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c92")::record operator(pg_catalog.*<>) row("n"."c92")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c93")::record operator(pg_catalog.*<>) row("n"."c93")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c94")::record operator(pg_catalog.*<>) row("n"."c94")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c95")::record operator(pg_catalog.*<>) row("n"."c95")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c96")::record operator(pg_catalog.*<>) row("n"."c96")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c97")::record operator(pg_catalog.*<>) row("n"."c97")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c98")::record operator(pg_catalog.*<>) row("n"."c98")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c99")::record operator(pg_catalog.*<>) row("n"."c99")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c100")::record operator(pg_catalog.*<>) row("n"."c100")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c101")::record operator(pg_catalog.*<>) row("n"."c101")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c102")::record operator(pg_catalog.*<>) row("n"."c102")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c103")::record operator(pg_catalog.*<>) row("n"."c103")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c104")::record operator(pg_catalog.*<>) row("n"."c104")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c105")::record operator(pg_catalog.*<>) row("n"."c105")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c106")::record operator(pg_catalog.*<>) row("n"."c106")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c107")::record operator(pg_catalog.*<>) row("n"."c107")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c108")::record operator(pg_catalog.*<>) row("n"."c108")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c109")::record operator(pg_catalog.*<>) row("n"."c109")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c110")::record operator(pg_catalog.*<>) row("n"."c110")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c111")::record operator(pg_catalog.*<>) row("n"."c111")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c112")::record operator(pg_catalog.*<>) row("n"."c112")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c113")::record operator(pg_catalog.*<>) row("n"."c113")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c114")::record operator(pg_catalog.*<>) row("n"."c114")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c115")::record operator(pg_catalog.*<>) row("n"."c115")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c116")::record operator(pg_catalog.*<>) row("n"."c116")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c117")::record operator(pg_catalog.*<>) row("n"."c117")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c118")::record operator(pg_catalog.*<>) row("n"."c118")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c119")::record operator(pg_catalog.*<>) row("n"."c119")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c120")::record operator(pg_catalog.*<>) row("n"."c120")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c121")::record operator(pg_catalog.*<>) row("n"."c121")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c122")::record operator(pg_catalog.*<>) row("n"."c122")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c123")::record operator(pg_catalog.*<>) row("n"."c123")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c124")::record operator(pg_catalog.*<>) row("n"."c124")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c125")::record operator(pg_catalog.*<>) row("n"."c125")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c126")::record operator(pg_catalog.*<>) row("n"."c126")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c127")::record operator(pg_catalog.*<>) row("n"."c127")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c128")::record operator(pg_catalog.*<>) row("n"."c128")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c129")::record operator(pg_catalog.*<>) row("n"."c129")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c130")::record operator(pg_catalog.*<>) row("n"."c130")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c131")::record operator(pg_catalog.*<>) row("n"."c131")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c132")::record operator(pg_catalog.*<>) row("n"."c132")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c133")::record operator(pg_catalog.*<>) row("n"."c133")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c134")::record operator(pg_catalog.*<>) row("n"."c134")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c135")::record operator(pg_catalog.*<>) row("n"."c135")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c136")::record operator(pg_catalog.*<>) row("n"."c136")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c137")::record operator(pg_catalog.*<>) row("n"."c137")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c138")::record operator(pg_catalog.*<>) row("n"."c138")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c139")::record operator(pg_catalog.*<>) row("n"."c139")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c140")::record operator(pg_catalog.*<>) row("n"."c140")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c141")::record operator(pg_catalog.*<>) row("n"."c141")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c142")::record operator(pg_catalog.*<>) row("n"."c142")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c143")::record operator(pg_catalog.*<>) row("n"."c143")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c144")::record operator(pg_catalog.*<>) row("n"."c144")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c145")::record operator(pg_catalog.*<>) row("n"."c145")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c146")::record operator(pg_catalog.*<>) row("n"."c146")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c147")::record operator(pg_catalog.*<>) row("n"."c147")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c148")::record operator(pg_catalog.*<>) row("n"."c148")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c149")::record operator(pg_catalog.*<>) row("n"."c149")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c150")::record operator(pg_catalog.*<>) row("n"."c150")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c151")::record operator(pg_catalog.*<>) row("n"."c151")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c152")::record operator(pg_catalog.*<>) row("n"."c152")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c153")::record operator(pg_catalog.*<>) row("n"."c153")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c154")::record operator(pg_catalog.*<>) row("n"."c154")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c155")::record operator(pg_catalog.*<>) row("n"."c155")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c156")::record operator(pg_catalog.*<>) row("n"."c156")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c157")::record operator(pg_catalog.*<>) row("n"."c157")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c158")::record operator(pg_catalog.*<>) row("n"."c158")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c159")::record operator(pg_catalog.*<>) row("n"."c159")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c160")::record operator(pg_catalog.*<>) row("n"."c160")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c161")::record operator(pg_catalog.*<>) row("n"."c161")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c162")::record operator(pg_catalog.*<>) row("n"."c162")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c163")::record operator(pg_catalog.*<>) row("n"."c163")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c164")::record operator(pg_catalog.*<>) row("n"."c164")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c165")::record operator(pg_catalog.*<>) row("n"."c165")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c166")::record operator(pg_catalog.*<>) row("n"."c166")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c167")::record operator(pg_catalog.*<>) row("n"."c167")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c168")::record operator(pg_catalog.*<>) row("n"."c168")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c169")::record operator(pg_catalog.*<>) row("n"."c169")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c170")::record operator(pg_catalog.*<>) row("n"."c170")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c171")::record operator(pg_catalog.*<>) row("n"."c171")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c172")::record operator(pg_catalog.*<>) row("n"."c172")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c173")::record operator(pg_catalog.*<>) row("n"."c173")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c174")::record operator(pg_catalog.*<>) row("n"."c174")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c175")::record operator(pg_catalog.*<>) row("n"."c175")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c176")::record operator(pg_catalog.*<>) row("n"."c176")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c177")::record operator(pg_catalog.*<>) row("n"."c177")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c178")::record operator(pg_catalog.*<>) row("n"."c178")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c179")::record operator(pg_catalog.*<>) row("n"."c179")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c180")::record operator(pg_catalog.*<>) row("n"."c180")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c181")::record operator(pg_catalog.*<>) row("n"."c181")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c182")::record operator(pg_catalog.*<>) row("n"."c182")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c183")::record operator(pg_catalog.*<>) row("n"."c183")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c184")::record operator(pg_catalog.*<>) row("n"."c184")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c185")::record operator(pg_catalog.*<>) row("n"."c185")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c186")::record operator(pg_catalog.*<>) row("n"."c186")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c187")::record operator(pg_catalog.*<>) row("n"."c187")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c188")::record operator(pg_catalog.*<>) row("n"."c188")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c189")::record operator(pg_catalog.*<>) row("n"."c189")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c190")::record operator(pg_catalog.*<>) row("n"."c190")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c191")::record operator(pg_catalog.*<>) row("n"."c191")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c192")::record operator(pg_catalog.*<>) row("n"."c192")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c193")::record operator(pg_catalog.*<>) row("n"."c193")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c194")::record operator(pg_catalog.*<>) row("n"."c194")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c195")::record operator(pg_catalog.*<>) row("n"."c195")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c196")::record operator(pg_catalog.*<>) row("n"."c196")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c197")::record operator(pg_catalog.*<>) row("n"."c197")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c198")::record operator(pg_catalog.*<>) row("n"."c198")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c199")::record operator(pg_catalog.*<>) row("n"."c199")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c200")::record operator(pg_catalog.*<>) row("n"."c200")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c201")::record operator(pg_catalog.*<>) row("n"."c201")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c202")::record operator(pg_catalog.*<>) row("n"."c202")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c203")::record operator(pg_catalog.*<>) row("n"."c203")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c204")::record operator(pg_catalog.*<>) row("n"."c204")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c205")::record operator(pg_catalog.*<>) row("n"."c205")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c206")::record operator(pg_catalog.*<>) row("n"."c206")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c207")::record operator(pg_catalog.*<>) row("n"."c207")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c208")::record operator(pg_catalog.*<>) row("n"."c208")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c209")::record operator(pg_catalog.*<>) row("n"."c209")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c210")::record operator(pg_catalog.*<>) row("n"."c210")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c211")::record operator(pg_catalog.*<>) row("n"."c211")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c212")::record operator(pg_catalog.*<>) row("n"."c212")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c213")::record operator(pg_catalog.*<>) row("n"."c213")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c214")::record operator(pg_catalog.*<>) row("n"."c214")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c215")::record operator(pg_catalog.*<>) row("n"."c215")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c216")::record operator(pg_catalog.*<>) row("n"."c216")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c217")::record operator(pg_catalog.*<>) row("n"."c217")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c218")::record operator(pg_catalog.*<>) row("n"."c218")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c219")::record operator(pg_catalog.*<>) row("n"."c219")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c220")::record operator(pg_catalog.*<>) row("n"."c220")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c221")::record operator(pg_catalog.*<>) row("n"."c221")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c222")::record operator(pg_catalog.*<>) row("n"."c222")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c223")::record operator(pg_catalog.*<>) row("n"."c223")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c224")::record operator(pg_catalog.*<>) row("n"."c224")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c225")::record operator(pg_catalog.*<>) row("n"."c225")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c226")::record operator(pg_catalog.*<>) row("n"."c226")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c227")::record operator(pg_catalog.*<>) row("n"."c227")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c228")::record operator(pg_catalog.*<>) row("n"."c228")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c229")::record operator(pg_catalog.*<>) row("n"."c229")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c230")::record operator(pg_catalog.*<>) row("n"."c230")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c231")::record operator(pg_catalog.*<>) row("n"."c231")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c232")::record operator(pg_catalog.*<>) row("n"."c232")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c233")::record operator(pg_catalog.*<>) row("n"."c233")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c234")::record operator(pg_catalog.*<>) row("n"."c234")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c235")::record operator(pg_catalog.*<>) row("n"."c235")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c236")::record operator(pg_catalog.*<>) row("n"."c236")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c237")::record operator(pg_catalog.*<>) row("n"."c237")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c238")::record operator(pg_catalog.*<>) row("n"."c238")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c239")::record operator(pg_catalog.*<>) row("n"."c239")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c240")::record operator(pg_catalog.*<>) row("n"."c240")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c241")::record operator(pg_catalog.*<>) row("n"."c241")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c242")::record operator(pg_catalog.*<>) row("n"."c242")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c243")::record operator(pg_catalog.*<>) row("n"."c243")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c244")::record operator(pg_catalog.*<>) row("n"."c244")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c245")::record operator(pg_catalog.*<>) row("n"."c245")::record)::integer * first_version)::int8,
            (bool_or(row("o"."c246")::record operator(pg_catalog.*<>) row("n"."c246")::record)::integer * first_version)::int8]
        from inserted as n join deleted as o on o."rowguid" operator(pg_catalog.=) n."rowguid"
        group by n."rowguid"
        on conflict (rowguid) do update
        set xid = excluded.xid, gone = false, own = m.top + 1, top = m.top + 1,
            colv = array[case excluded.colv[1] when 0 then coalesce(m.colv[1], 0) else m.top + 1 end,
            case excluded.colv[2] when 0 then coalesce(m.colv[2], 0) else m.top + 1 end,
            case excluded.colv[3] when 0 then coalesce(m.colv[3], 0) else m.top + 1 end,
            case excluded.colv[4] when 0 then coalesce(m.colv[4], 0) else m.top + 1 end,
            case excluded.colv[5] when 0 then coalesce(m.colv[5], 0) else m.top + 1 end,
            case excluded.colv[6] when 0 then coalesce(m.colv[6], 0) else m.top + 1 end,
            case excluded.colv[7] when 0 then coalesce(m.colv[7], 0) else m.top + 1 end,
            case excluded.colv[8] when 0 then coalesce(m.colv[8], 0) else m.top + 1 end,
            case excluded.colv[9] when 0 then coalesce(m.colv[9], 0) else m.top + 1 end,
            case excluded.colv[10] when 0 then coalesce(m.colv[10], 0) else m.top + 1 end,
            case excluded.colv[11] when 0 then coalesce(m.colv[11], 0) else m.top + 1 end,
            case excluded.colv[12] when 0 then coalesce(m.colv[12], 0) else m.top + 1 end,
            case excluded.colv[13] when 0 then coalesce(m.colv[13], 0) else m.top + 1 end,
            case excluded.colv[14] when 0 then coalesce(m.colv[14], 0) else m.top + 1 end,
            case excluded.colv[15] when 0 then coalesce(m.colv[15], 0) else m.top + 1 end,
            case excluded.colv[16] when 0 then coalesce(m.colv[16], 0) else m.top + 1 end,
            case excluded.colv[17] when 0 then coalesce(m.colv[17], 0) else m.top + 1 end,
            case excluded.colv[18] when 0 then coalesce(m.colv[18], 0) else m.top + 1 end,
            case excluded.colv[19] when 0 then coalesce(m.colv[19], 0) else m.top + 1 end,
            case excluded.colv[20] when 0 then coalesce(m.colv[20], 0) else m.top + 1 end,
            case excluded.colv[21] when 0 then coalesce(m.colv[21], 0) else m.top + 1 end,
            case excluded.colv[22] when 0 then coalesce(m.colv[22], 0) else m.top + 1 end,
            case excluded.colv[23] when 0 then coalesce(m.colv[23], 0) else m.top + 1 end,
            case excluded.colv[24] when 0 then coalesce(m.colv[24], 0) else m.top + 1 end,
            case excluded.colv[25] when 0 then coalesce(m.colv[25], 0) else m.top + 1 end,
            case excluded.colv[26] when 0 then coalesce(m.colv[26], 0) else m.top + 1 end,
            case excluded.colv[27] when 0 then coalesce(m.colv[27], 0) else m.top + 1 end,
            case excluded.colv[28] when 0 then coalesce(m.colv[28], 0) else m.top + 1 end,
            case excluded.colv[29] when 0 then coalesce(m.colv[29], 0) else m.top + 1 end,
            case excluded.colv[30] when 0 then coalesce(m.colv[30], 0) else m.top + 1 end,
            case excluded.colv[31] when 0 then coalesce(m.colv[31], 0) else m.top + 1 end,
            case excluded.colv[32] when 0 then coalesce(m.colv[32], 0) else m.top + 1 end,
            case excluded.colv[33] when 0 then coalesce(m.colv[33], 0) else m.top + 1 end,
            case excluded.colv[34] when 0 then coalesce(m.colv[34], 0) else m.top + 1 end,
            case excluded.colv[35] when 0 then coalesce(m.colv[35], 0) else m.top + 1 end,
            case excluded.colv[36] when 0 then coalesce(m.colv[36], 0) else m.top + 1 end,
            case excluded.colv[37] when 0 then coalesce(m.colv[37], 0) else m.top + 1 end,
            case excluded.colv[38] when 0 then coalesce(m.colv[38], 0) else m.top + 1 end,
            case excluded.colv[39] when 0 then coalesce(m.colv[39], 0) else m.top + 1 end,
            case excluded.colv[40] when 0 then coalesce(m.colv[40], 0) else m.top + 1 end,
            case excluded.colv[41] when 0 then coalesce(m.colv[41], 0) else m.top + 1 end,
            case excluded.colv[42] when 0 then coalesce(m.colv[42], 0) else m.top + 1 end,
            case excluded.colv[43] when 0 then coalesce(m.colv[43], 0) else m.top + 1 end,
            case excluded.colv[44] when 0 then coalesce(m.colv[44], 0) else m.top + 1 end,
            case excluded.colv[45] when 0 then coalesce(m.colv[45], 0) else m.top + 1 end,
            case excluded.colv[46] when 0 then coalesce(m.colv[46], 0) else m.top + 1 end,
            case excluded.colv[47] when 0 then coalesce(m.colv[47], 0) else m.top + 1 end,
            case excluded.colv[48] when 0 then coalesce(m.colv[48], 0) else m.top + 1 end,
            case excluded.colv[49] when 0 then coalesce(m.colv[49], 0) else m.top + 1 end,
            case excluded.colv[50] when 0 then coalesce(m.colv[50], 0) else m.top + 1 end,
            case excluded.colv[51] when 0 then coalesce(m.colv[51], 0) else m.top + 1 end,
            case excluded.colv[52] when 0 then coalesce(m.colv[52], 0) else m.top + 1 end,
            case excluded.colv[53] when 0 then coalesce(m.colv[53], 0) else m.top + 1 end,
            case excluded.colv[54] when 0 then coalesce(m.colv[54], 0) else m.top + 1 end,
            case excluded.colv[55] when 0 then coalesce(m.colv[55], 0) else m.top + 1 end,
            case excluded.colv[56] when 0 then coalesce(m.colv[56], 0) else m.top + 1 end,
            case excluded.colv[57] when 0 then coalesce(m.colv[57], 0) else m.top + 1 end,
            case excluded.colv[58] when 0 then coalesce(m.colv[58], 0) else m.top + 1 end,
            case excluded.colv[59] when 0 then coalesce(m.colv[59], 0) else m.top + 1 end,
            case excluded.colv[60] when 0 then coalesce(m.colv[60], 0) else m.top + 1 end,
            case excluded.colv[61] when 0 then coalesce(m.colv[61], 0) else m.top + 1 end,
            case excluded.colv[62] when 0 then coalesce(m.colv[62], 0) else m.top + 1 end,
            case excluded.colv[63] when 0 then coalesce(m.colv[63], 0) else m.top + 1 end,
            case excluded.colv[64] when 0 then coalesce(m.colv[64], 0) else m.top + 1 end,
            case excluded.colv[65] when 0 then coalesce(m.colv[65], 0) else m.top + 1 end,
            case excluded.colv[66] when 0 then coalesce(m.colv[66], 0) else m.top + 1 end,
            case excluded.colv[67] when 0 then coalesce(m.colv[67], 0) else m.top + 1 end,
            case excluded.colv[68] when 0 then coalesce(m.colv[68], 0) else m.top + 1 end,
            case excluded.colv[69] when 0 then coalesce(m.colv[69], 0) else m.top + 1 end,
            case excluded.colv[70] when 0 then coalesce(m.colv[70], 0) else m.top + 1 end,
            case excluded.colv[71] when 0 then coalesce(m.colv[71], 0) else m.top + 1 end,
            case excluded.colv[72] when 0 then coalesce(m.colv[72], 0) else m.top + 1 end,
            case excluded.colv[73] when 0 then coalesce(m.colv[73], 0) else m.top + 1 end,
            case excluded.colv[74] when 0 then coalesce(m.colv[74], 0) else m.top + 1 end,
            case excluded.colv[75] when 0 then coalesce(m.colv[75], 0) else m.top + 1 end,
            case excluded.colv[76] when 0 then coalesce(m.colv[76], 0) else m.top + 1 end,
            case excluded.colv[77] when 0 then coalesce(m.colv[77], 0) else m.top + 1 end,
            case excluded.colv[78] when 0 then coalesce(m.colv[78], 0) else m.top + 1 end,
            case excluded.colv[79] when 0 then coalesce(m.colv[79], 0) else m.top + 1 end,
            case excluded.colv[80] when 0 then coalesce(m.colv[80], 0) else m.top + 1 end,
            case excluded.colv[81] when 0 then coalesce(m.colv[81], 0) else m.top + 1 end,
            case excluded.colv[82] when 0 then coalesce(m.colv[82], 0) else m.top + 1 end,
            case excluded.colv[83] when 0 then coalesce(m.colv[83], 0) else m.top + 1 end,
            case excluded.colv[84] when 0 then coalesce(m.colv[84], 0) else m.top + 1 end,
            case excluded.colv[85] when 0 then coalesce(m.colv[85], 0) else m.top + 1 end,
            case excluded.colv[86] when 0 then coalesce(m.colv[86], 0) else m.top + 1 end,
            case excluded.colv[87] when 0 then coalesce(m.colv[87], 0) else m.top + 1 end,
            case excluded.colv[88] when 0 then coalesce(m.colv[88], 0) else m.top + 1 end,
            case excluded.colv[89] when 0 then coalesce(m.colv[89], 0) else m.top + 1 end,
            case excluded.colv[90] when 0 then coalesce(m.colv[90], 0) else m.top + 1 end,
            case excluded.colv[91] when 0 then coalesce(m.colv[91], 0) else m.top + 1 end,
            case excluded.colv[92] when 0 then coalesce(m.colv[92], 0) else m.top + 1 end,
            case excluded.colv[93] when 0 then coalesce(m.colv[93], 0) else m.top + 1 end,
            case excluded.colv[94] when 0 then coalesce(m.colv[94], 0) else m.top + 1 end,
            case excluded.colv[95] when 0 then coalesce(m.colv[95], 0) else m.top + 1 end,
            case excluded.colv[96] when 0 then coalesce(m.colv[96], 0) else m.top + 1 end,
            case excluded.colv[97] when 0 then coalesce(m.colv[97], 0) else m.top + 1 end,
            case excluded.colv[98] when 0 then coalesce(m.colv[98], 0) else m.top + 1 end,
            case excluded.colv[99] when 0 then coalesce(m.colv[99], 0) else m.top + 1 end,
            case excluded.colv[100] when 0 then coalesce(m.colv[100], 0) else m.top + 1 end,
            case excluded.colv[101] when 0 then coalesce(m.colv[101], 0) else m.top + 1 end,
            case excluded.colv[102] when 0 then coalesce(m.colv[102], 0) else m.top + 1 end,
            case excluded.colv[103] when 0 then coalesce(m.colv[103], 0) else m.top + 1 end,
            case excluded.colv[104] when 0 then coalesce(m.colv[104], 0) else m.top + 1 end,
            case excluded.colv[105] when 0 then coalesce(m.colv[105], 0) else m.top + 1 end,
            case excluded.colv[106] when 0 then coalesce(m.colv[106], 0) else m.top + 1 end,
            case excluded.colv[107] when 0 then coalesce(m.colv[107], 0) else m.top + 1 end,
            case excluded.colv[108] when 0 then coalesce(m.colv[108], 0) else m.top + 1 end,
            case excluded.colv[109] when 0 then coalesce(m.colv[109], 0) else m.top + 1 end,
            case excluded.colv[110] when 0 then coalesce(m.colv[110], 0) else m.top + 1 end,
            case excluded.colv[111] when 0 then coalesce(m.colv[111], 0) else m.top + 1 end,
            case excluded.colv[112] when 0 then coalesce(m.colv[112], 0) else m.top + 1 end,
            case excluded.colv[113] when 0 then coalesce(m.colv[113], 0) else m.top + 1 end,
            case excluded.colv[114] when 0 then coalesce(m.colv[114], 0) else m.top + 1 end,
            case excluded.colv[115] when 0 then coalesce(m.colv[115], 0) else m.top + 1 end,
            case excluded.colv[116] when 0 then coalesce(m.colv[116], 0) else m.top + 1 end,
            case excluded.colv[117] when 0 then coalesce(m.colv[117], 0) else m.top + 1 end,
            case excluded.colv[118] when 0 then coalesce(m.colv[118], 0) else m.top + 1 end,
            case excluded.colv[119] when 0 then coalesce(m.colv[119], 0) else m.top + 1 end,
            case excluded.colv[120] when 0 then coalesce(m.colv[120], 0) else m.top + 1 end,
            case excluded.colv[121] when 0 then coalesce(m.colv[121], 0) else m.top + 1 end,
            case excluded.colv[122] when 0 then coalesce(m.colv[122], 0) else m.top + 1 end,
            case excluded.colv[123] when 0 then coalesce(m.colv[123], 0) else m.top + 1 end,
            case excluded.colv[124] when 0 then coalesce(m.colv[124], 0) else m.top + 1 end,
            case excluded.colv[125] when 0 then coalesce(m.colv[125], 0) else m.top + 1 end,
            case excluded.colv[126] when 0 then coalesce(m.colv[126], 0) else m.top + 1 end,
            case excluded.colv[127] when 0 then coalesce(m.colv[127], 0) else m.top + 1 end,
            case excluded.colv[128] when 0 then coalesce(m.colv[128], 0) else m.top + 1 end,
            case excluded.colv[129] when 0 then coalesce(m.colv[129], 0) else m.top + 1 end,
            case excluded.colv[130] when 0 then coalesce(m.colv[130], 0) else m.top + 1 end,
            case excluded.colv[131] when 0 then coalesce(m.colv[131], 0) else m.top + 1 end,
            case excluded.colv[132] when 0 then coalesce(m.colv[132], 0) else m.top + 1 end,
            case excluded.colv[133] when 0 then coalesce(m.colv[133], 0) else m.top + 1 end,
            case excluded.colv[134] when 0 then coalesce(m.colv[134], 0) else m.top + 1 end,
            case excluded.colv[135] when 0 then coalesce(m.colv[135], 0) else m.top + 1 end,
            case excluded.colv[136] when 0 then coalesce(m.colv[136], 0) else m.top + 1 end,
            case excluded.colv[137] when 0 then coalesce(m.colv[137], 0) else m.top + 1 end,
            case excluded.colv[138] when 0 then coalesce(m.colv[138], 0) else m.top + 1 end,
            case excluded.colv[139] when 0 then coalesce(m.colv[139], 0) else m.top + 1 end,
            case excluded.colv[140] when 0 then coalesce(m.colv[140], 0) else m.top + 1 end,
            case excluded.colv[141] when 0 then coalesce(m.colv[141], 0) else m.top + 1 end,
            case excluded.colv[142] when 0 then coalesce(m.colv[142], 0) else m.top + 1 end,
            case excluded.colv[143] when 0 then coalesce(m.colv[143], 0) else m.top + 1 end,
            case excluded.colv[144] when 0 then coalesce(m.colv[144], 0) else m.top + 1 end,
            case excluded.colv[145] when 0 then coalesce(m.colv[145], 0) else m.top + 1 end,
            case excluded.colv[146] when 0 then coalesce(m.colv[146], 0) else m.top + 1 end,
            case excluded.colv[147] when 0 then coalesce(m.colv[147], 0) else m.top + 1 end,
            case excluded.colv[148] when 0 then coalesce(m.colv[148], 0) else m.top + 1 end,
            case excluded.colv[149] when 0 then coalesce(m.colv[149], 0) else m.top + 1 end,
            case excluded.colv[150] when 0 then coalesce(m.colv[150], 0) else m.top + 1 end,
            case excluded.colv[151] when 0 then coalesce(m.colv[151], 0) else m.top + 1 end,
            case excluded.colv[152] when 0 then coalesce(m.colv[152], 0) else m.top + 1 end,
            case excluded.colv[153] when 0 then coalesce(m.colv[153], 0) else m.top + 1 end,
            case excluded.colv[154] when 0 then coalesce(m.colv[154], 0) else m.top + 1 end,
            case excluded.colv[155] when 0 then coalesce(m.colv[155], 0) else m.top + 1 end,
            case excluded.colv[156] when 0 then coalesce(m.colv[156], 0) else m.top + 1 end,
            case excluded.colv[157] when 0 then coalesce(m.colv[157], 0) else m.top + 1 end,
            case excluded.colv[158] when 0 then coalesce(m.colv[158], 0) else m.top + 1 end,
            case excluded.colv[159] when 0 then coalesce(m.colv[159], 0) else m.top + 1 end,
            case excluded.colv[160] when 0 then coalesce(m.colv[160], 0) else m.top + 1 end,
            case excluded.colv[161] when 0 then coalesce(m.colv[161], 0) else m.top + 1 end,
            case excluded.colv[162] when 0 then coalesce(m.colv[162], 0) else m.top + 1 end,
            case excluded.colv[163] when 0 then coalesce(m.colv[163], 0) else m.top + 1 end,
            case excluded.colv[164] when 0 then coalesce(m.colv[164], 0) else m.top + 1 end,
            case excluded.colv[165] when 0 then coalesce(m.colv[165], 0) else m.top + 1 end,
            case excluded.colv[166] when 0 then coalesce(m.colv[166], 0) else m.top + 1 end,
            case excluded.colv[167] when 0 then coalesce(m.colv[167], 0) else m.top + 1 end,
            case excluded.colv[168] when 0 then coalesce(m.colv[168], 0) else m.top + 1 end,
            case excluded.colv[169] when 0 then coalesce(m.colv[169], 0) else m.top + 1 end,
            case excluded.colv[170] when 0 then coalesce(m.colv[170], 0) else m.top + 1 end,
            case excluded.colv[171] when 0 then coalesce(m.colv[171], 0) else m.top + 1 end,
            case excluded.colv[172] when 0 then coalesce(m.colv[172], 0) else m.top + 1 end,
            case excluded.colv[173] when 0 then coalesce(m.colv[173], 0) else m.top + 1 end,
            case excluded.colv[174] when 0 then coalesce(m.colv[174], 0) else m.top + 1 end,
            case excluded.colv[175] when 0 then coalesce(m.colv[175], 0) else m.top + 1 end,
            case excluded.colv[176] when 0 then coalesce(m.colv[176], 0) else m.top + 1 end,
            case excluded.colv[177] when 0 then coalesce(m.colv[177], 0) else m.top + 1 end,
            case excluded.colv[178] when 0 then coalesce(m.colv[178], 0) else m.top + 1 end,
            case excluded.colv[179] when 0 then coalesce(m.colv[179], 0) else m.top + 1 end,
            case excluded.colv[180] when 0 then coalesce(m.colv[180], 0) else m.top + 1 end,
            case excluded.colv[181] when 0 then coalesce(m.colv[181], 0) else m.top + 1 end,
            case excluded.colv[182] when 0 then coalesce(m.colv[182], 0) else m.top + 1 end,
            case excluded.colv[183] when 0 then coalesce(m.colv[183], 0) else m.top + 1 end,
            case excluded.colv[184] when 0 then coalesce(m.colv[184], 0) else m.top + 1 end,
            case excluded.colv[185] when 0 then coalesce(m.colv[185], 0) else m.top + 1 end,
            case excluded.colv[186] when 0 then coalesce(m.colv[186], 0) else m.top + 1 end,
            case excluded.colv[187] when 0 then coalesce(m.colv[187], 0) else m.top + 1 end,
            case excluded.colv[188] when 0 then coalesce(m.colv[188], 0) else m.top + 1 end,
            case excluded.colv[189] when 0 then coalesce(m.colv[189], 0) else m.top + 1 end,
            case excluded.colv[190] when 0 then coalesce(m.colv[190], 0) else m.top + 1 end,
            case excluded.colv[191] when 0 then coalesce(m.colv[191], 0) else m.top + 1 end,
            case excluded.colv[192] when 0 then coalesce(m.colv[192], 0) else m.top + 1 end,
            case excluded.colv[193] when 0 then coalesce(m.colv[193], 0) else m.top + 1 end,
            case excluded.colv[194] when 0 then coalesce(m.colv[194], 0) else m.top + 1 end,
            case excluded.colv[195] when 0 then coalesce(m.colv[195], 0) else m.top + 1 end,
            case excluded.colv[196] when 0 then coalesce(m.colv[196], 0) else m.top + 1 end,
            case excluded.colv[197] when 0 then coalesce(m.colv[197], 0) else m.top + 1 end,
            case excluded.colv[198] when 0 then coalesce(m.colv[198], 0) else m.top + 1 end,
            case excluded.colv[199] when 0 then coalesce(m.colv[199], 0) else m.top + 1 end,
            case excluded.colv[200] when 0 then coalesce(m.colv[200], 0) else m.top + 1 end,
            case excluded.colv[201] when 0 then coalesce(m.colv[201], 0) else m.top + 1 end,
            case excluded.colv[202] when 0 then coalesce(m.colv[202], 0) else m.top + 1 end,
            case excluded.colv[203] when 0 then coalesce(m.colv[203], 0) else m.top + 1 end,
            case excluded.colv[204] when 0 then coalesce(m.colv[204], 0) else m.top + 1 end,
            case excluded.colv[205] when 0 then coalesce(m.colv[205], 0) else m.top + 1 end,
            case excluded.colv[206] when 0 then coalesce(m.colv[206], 0) else m.top + 1 end,
            case excluded.colv[207] when 0 then coalesce(m.colv[207], 0) else m.top + 1 end,
            case excluded.colv[208] when 0 then coalesce(m.colv[208], 0) else m.top + 1 end,
            case excluded.colv[209] when 0 then coalesce(m.colv[209], 0) else m.top + 1 end,
            case excluded.colv[210] when 0 then coalesce(m.colv[210], 0) else m.top + 1 end,
            case excluded.colv[211] when 0 then coalesce(m.colv[211], 0) else m.top + 1 end,
            case excluded.colv[212] when 0 then coalesce(m.colv[212], 0) else m.top + 1 end,
            case excluded.colv[213] when 0 then coalesce(m.colv[213], 0) else m.top + 1 end,
            case excluded.colv[214] when 0 then coalesce(m.colv[214], 0) else m.top + 1 end,
            case excluded.colv[215] when 0 then coalesce(m.colv[215], 0) else m.top + 1 end,
            case excluded.colv[216] when 0 then coalesce(m.colv[216], 0) else m.top + 1 end,
            case excluded.colv[217] when 0 then coalesce(m.colv[217], 0) else m.top + 1 end,
            case excluded.colv[218] when 0 then coalesce(m.colv[218], 0) else m.top + 1 end,
            case excluded.colv[219] when 0 then coalesce(m.colv[219], 0) else m.top + 1 end,
            case excluded.colv[220] when 0 then coalesce(m.colv[220], 0) else m.top + 1 end,
            case excluded.colv[221] when 0 then coalesce(m.colv[221], 0) else m.top + 1 end,
            case excluded.colv[222] when 0 then coalesce(m.colv[222], 0) else m.top + 1 end,
            case excluded.colv[223] when 0 then coalesce(m.colv[223], 0) else m.top + 1 end,
            case excluded.colv[224] when 0 then coalesce(m.colv[224], 0) else m.top + 1 end,
            case excluded.colv[225] when 0 then coalesce(m.colv[225], 0) else m.top + 1 end,
            case excluded.colv[226] when 0 then coalesce(m.colv[226], 0) else m.top + 1 end,
            case excluded.colv[227] when 0 then coalesce(m.colv[227], 0) else m.top + 1 end,
            case excluded.colv[228] when 0 then coalesce(m.colv[228], 0) else m.top + 1 end,
            case excluded.colv[229] when 0 then coalesce(m.colv[229], 0) else m.top + 1 end,
            case excluded.colv[230] when 0 then coalesce(m.colv[230], 0) else m.top + 1 end,
            case excluded.colv[231] when 0 then coalesce(m.colv[231], 0) else m.top + 1 end,
            case excluded.colv[232] when 0 then coalesce(m.colv[232], 0) else m.top + 1 end,
            case excluded.colv[233] when 0 then coalesce(m.colv[233], 0) else m.top + 1 end,
            case excluded.colv[234] when 0 then coalesce(m.colv[234], 0) else m.top + 1 end,
            case excluded.colv[235] when 0 then coalesce(m.colv[235], 0) else m.top + 1 end,
            case excluded.colv[236] when 0 then coalesce(m.colv[236], 0) else m.top + 1 end,
            case excluded.colv[237] when 0 then coalesce(m.colv[237], 0) else m.top + 1 end,
            case excluded.colv[238] when 0 then coalesce(m.colv[238], 0) else m.top + 1 end,
            case excluded.colv[239] when 0 then coalesce(m.colv[239], 0) else m.top + 1 end,
            case excluded.colv[240] when 0 then coalesce(m.colv[240], 0) else m.top + 1 end,
            case excluded.colv[241] when 0 then coalesce(m.colv[241], 0) else m.top + 1 end,
            case excluded.colv[242] when 0 then coalesce(m.colv[242], 0) else m.top + 1 end,
            case excluded.colv[243] when 0 then coalesce(m.colv[243], 0) else m.top + 1 end,
            case excluded.colv[244] when 0 then coalesce(m.colv[244], 0) else m.top + 1 end,
            case excluded.colv[245] when 0 then coalesce(m.colv[245], 0) else m.top + 1 end,
            case excluded.colv[246] when 0 then coalesce(m.colv[246], 0) else m.top + 1 end],
            source = null, writer = null;
    else
        insert into "msrepl"."msmerge_metadata_7" as m (tablenick, rowguid, xid, gone, own, top, colv)
        select 7, n."rowguid", pg_current_xact_id(), false, first_version, first_version,
               array[((row("o"."c1")::record operator(pg_catalog.*<>) row("n"."c1")::record)::integer * first_version)::int8,
            ((row("o"."c2")::record operator(pg_catalog.*<>) row("n"."c2")::record)::integer * first_version)::int8,
            ((row("o"."c3")::record operator(pg_catalog.*<>) row("n"."c3")::record)::integer * first_version)::int8,
            ((row("o"."c4")::record operator(pg_catalog.*<>) row("n"."c4")::record)::integer * first_version)::int8,
            ((row("o"."c5")::record operator(pg_catalog.*<>) row("n"."c5")::record)::integer * first_version)::int8,
            ((row("o"."c6")::record operator(pg_catalog.*<>) row("n"."c6")::record)::integer * first_version)::int8,
            ((row("o"."c7")::record operator(pg_catalog.*<>) row("n"."c7")::record)::integer * first_version)::int8,
            ((row("o"."c8")::record operator(pg_catalog.*<>) row("n"."c8")::record)::integer * first_version)::int8,
            ((row("o"."c9")::record operator(pg_catalog.*<>) row("n"."c9")::record)::integer * first_version)::int8,
            ((row("o"."c10")::record operator(pg_catalog.*<>) row("n"."c10")::record)::integer * first_version)::int8,
            ((row("o"."c11")::record operator(pg_catalog.*<>) row("n"."c11")::record)::integer * first_version)::int8,
            ((row("o"."c12")::record operator(pg_catalog.*<>) row("n"."c12")::record)::integer * first_version)::int8,
            ((row("o"."c13")::record operator(pg_catalog.*<>) row("n"."c13")::record)::integer * first_version)::int8,
            ((row("o"."c14")::record operator(pg_catalog.*<>) row("n"."c14")::record)::integer * first_version)::int8,
            ((row("o"."c15")::record operator(pg_catalog.*<>) row("n"."c15")::record)::integer * first_version)::int8,
            ((row("o"."c16")::record operator(pg_catalog.*<>) row("n"."c16")::record)::integer * first_version)::int8,
            ((row("o"."c17")::record operator(pg_catalog.*<>) row("n"."c17")::record)::integer * first_version)::int8,
            ((row("o"."c18")::record operator(pg_catalog.*<>) row("n"."c18")::record)::integer * first_version)::int8,
            ((row("o"."c19")::record operator(pg_catalog.*<>) row("n"."c19")::record)::integer * first_version)::int8,
            ((row("o"."c20")::record operator(pg_catalog.*<>) row("n"."c20")::record)::integer * first_version)::int8,
            ((row("o"."c21")::record operator(pg_catalog.*<>) row("n"."c21")::record)::integer * first_version)::int8,
            ((row("o"."c22")::record operator(pg_catalog.*<>) row("n"."c22")::record)::integer * first_version)::int8,
            ((row("o"."c23")::record operator(pg_catalog.*<>) row("n"."c23")::record)::integer * first_version)::int8,
            ((row("o"."c24")::record operator(pg_catalog.*<>) row("n"."c24")::record)::integer * first_version)::int8,
            ((row("o"."c25")::record operator(pg_catalog.*<>) row("n"."c25")::record)::integer * first_version)::int8,
            ((row("o"."c26")::record operator(pg_catalog.*<>) row("n"."c26")::record)::integer * first_version)::int8,
            ((row("o"."c27")::record operator(pg_catalog.*<>) row("n"."c27")::record)::integer * first_version)::int8,
            ((row("o"."c28")::record operator(pg_catalog.*<>) row("n"."c28")::record)::integer * first_version)::int8,
            ((row("o"."c29")::record operator(pg_catalog.*<>) row("n"."c29")::record)::integer * first_version)::int8,
            ((row("o"."c30")::record operator(pg_catalog.*<>) row("n"."c30")::record)::integer * first_version)::int8,
            ((row("o"."c31")::record operator(pg_catalog.*<>) row("n"."c31")::record)::integer * first_version)::int8,
            ((row("o"."c32")::record operator(pg_catalog.*<>) row("n"."c32")::record)::integer * first_version)::int8,
            ((row("o"."c33")::record operator(pg_catalog.*<>) row("n"."c33")::record)::integer * first_version)::int8,
            ((row("o"."c34")::record operator(pg_catalog.*<>) row("n"."c34")::record)::integer * first_version)::int8,
            ((row("o"."c35")::record operator(pg_catalog.*<>) row("n"."c35")::record)::integer * first_version)::int8,
            ((row("o"."c36")::record operator(pg_catalog.*<>) row("n"."c36")::record)::integer * first_version)::int8,
            ((row("o"."c37")::record operator(pg_catalog.*<>) row("n"."c37")::record)::integer * first_version)::int8,
            ((row("o"."c38")::record operator(pg_catalog.*<>) row("n"."c38")::record)::integer * first_version)::int8,
            ((row("o"."c39")::record operator(pg_catalog.*<>) row("n"."c39")::record)::integer * first_version)::int8,
            ((row("o"."c40")::record operator(pg_catalog.*<>) row("n"."c40")::record)::integer * first_version)::int8,
            ((row("o"."c41")::record operator(pg_catalog.*<>) row("n"."c41")::record)::integer * first_version)::int8,
            ((row("o"."c42")::record operator(pg_catalog.*<>) row("n"."c42")::record)::integer * first_version)::int8,
            ((row("o"."c43")::record operator(pg_catalog.*<>) row("n"."c43")::record)::integer * first_version)::int8,
            ((row("o"."c44")::record operator(pg_catalog.*<>) row("n"."c44")::record)::integer * first_version)::int8,
            ((row("o"."c45")::record operator(pg_catalog.*<>) row("n"."c45")::record)::integer * first_version)::int8,
            ((row("o"."c46")::record operator(pg_catalog.*<>) row("n"."c46")::record)::integer * first_version)::int8,
            ((row("o"."c47")::record operator(pg_catalog.*<>) row("n"."c47")::record)::integer * first_version)::int8,
            ((row("o"."c48")::record operator(pg_catalog.*<>) row("n"."c48")::record)::integer * first_version)::int8,
            ((row("o"."c49")::record operator(pg_catalog.*<>) row("n"."c49")::record)::integer * first_version)::int8,
            ((row("o"."c50")::record operator(pg_catalog.*<>) row("n"."c50")::record)::integer * first_version)::int8,
            ((row("o"."c51")::record operator(pg_catalog.*<>) row("n"."c51")::record)::integer * first_version)::int8,
            ((row("o"."c52")::record operator(pg_catalog.*<>) row("n"."c52")::record)::integer * first_version)::int8,
            ((row("o"."c53")::record operator(pg_catalog.*<>) row("n"."c53")::record)::integer * first_version)::int8,
            ((row("o"."c54")::record operator(pg_catalog.*<>) row("n"."c54")::record)::integer * first_version)::int8,
            ((row("o"."c55")::record operator(pg_catalog.*<>) row("n"."c55")::record)::integer * first_version)::int8,
            ((row("o"."c56")::record operator(pg_catalog.*<>) row("n"."c56")::record)::integer * first_version)::int8,
            ((row("o"."c57")::record operator(pg_catalog.*<>) row("n"."c57")::record)::integer * first_version)::int8,
            ((row("o"."c58")::record operator(pg_catalog.*<>) row("n"."c58")::record)::integer * first_version)::int8,
            ((row("o"."c59")::record operator(pg_catalog.*<>) row("n"."c59")::record)::integer * first_version)::int8,
            ((row("o"."c60")::record operator(pg_catalog.*<>) row("n"."c60")::record)::integer * first_version)::int8,
            ((row("o"."c61")::record operator(pg_catalog.*<>) row("n"."c61")::record)::integer * first_version)::int8,
            ((row("o"."c62")::record operator(pg_catalog.*<>) row("n"."c62")::record)::integer * first_version)::int8,
            ((row("o"."c63")::record operator(pg_catalog.*<>) row("n"."c63")::record)::integer * first_version)::int8,
            ((row("o"."c64")::record operator(pg_catalog.*<>) row("n"."c64")::record)::integer * first_version)::int8,
            ((row("o"."c65")::record operator(pg_catalog.*<>) row("n"."c65")::record)::integer * first_version)::int8,
            ((row("o"."c66")::record operator(pg_catalog.*<>) row("n"."c66")::record)::integer * first_version)::int8,
            ((row("o"."c67")::record operator(pg_catalog.*<>) row("n"."c67")::record)::integer * first_version)::int8,
            ((row("o"."c68")::record operator(pg_catalog.*<>) row("n"."c68")::record)::integer * first_version)::int8,
            ((row("o"."c69")::record operator(pg_catalog.*<>) row("n"."c69")::record)::integer * first_version)::int8,
            ((row("o"."c70")::record operator(pg_catalog.*<>) row("n"."c70")::record)::integer * first_version)::int8,
            ((row("o"."c71")::record operator(pg_catalog.*<>) row("n"."c71")::record)::integer * first_version)::int8,
            ((row("o"."c72")::record operator(pg_catalog.*<>) row("n"."c72")::record)::integer * first_version)::int8,
            ((row("o"."c73")::record operator(pg_catalog.*<>) row("n"."c73")::record)::integer * first_version)::int8,
            ((row("o"."c74")::record operator(pg_catalog.*<>) row("n"."c74")::record)::integer * first_version)::int8,
            ((row("o"."c75")::record operator(pg_catalog.*<>) row("n"."c75")::record)::integer * first_version)::int8,
            ((row("o"."c76")::record operator(pg_catalog.*<>) row("n"."c76")::record)::integer * first_version)::int8,
            ((row("o"."c77")::record operator(pg_catalog.*<>) row("n"."c77")::record)::integer * first_version)::int8,
            ((row("o"."c78")::record operator(pg_catalog.*<>) row("n"."c78")::record)::integer * first_version)::int8,
            ((row("o"."c79")::record operator(pg_catalog.*<>) row("n"."c79")::record)::integer * first_version)::int8,
            ((row("o"."c80")::record operator(pg_catalog.*<>) row("n"."c80")::record)::integer * first_version)::int8,
            ((row("o"."c81")::record operator(pg_catalog.*<>) row("n"."c81")::record)::integer * first_version)::int8,
            ((row("o"."c82")::record operator(pg_catalog.*<>) row("n"."c82")::record)::integer * first_version)::int8,
            ((row("o"."c83")::record operator(pg_catalog.*<>) row("n"."c83")::record)::integer * first_version)::int8,
            ((row("o"."c84")::record operator(pg_catalog.*<>) row("n"."c84")::record)::integer * first_version)::int8,
            ((row("o"."c85")::record operator(pg_catalog.*<>) row("n"."c85")::record)::integer * first_version)::int8,
            ((row("o"."c86")::record operator(pg_catalog.*<>) row("n"."c86")::record)::integer * first_version)::int8,
            ((row("o"."c87")::record operator(pg_catalog.*<>) row("n"."c87")::record)::integer * first_version)::int8,
            ((row("o"."c88")::record operator(pg_catalog.*<>) row("n"."c88")::record)::integer * first_version)::int8,
            ((row("o"."c89")::record operator(pg_catalog.*<>) row("n"."c89")::record)::integer * first_version)::int8,
            ((row("o"."c90")::record operator(pg_catalog.*<>) row("n"."c90")::record)::integer * first_version)::int8,
            ((row("o"."c91")::record operator(pg_catalog.*<>) row("n"."c91")::record)::integer * first_version)::int8,
            ((row("o"."c92")::record operator(pg_catalog.*<>) row("n"."c92")::record)::integer * first_version)::int8,
            ((row("o"."c93")::record operator(pg_catalog.*<>) row("n"."c93")::record)::integer * first_version)::int8,
            ((row("o"."c94")::record operator(pg_catalog.*<>) row("n"."c94")::record)::integer * first_version)::int8,
            ((row("o"."c95")::record operator(pg_catalog.*<>) row("n"."c95")::record)::integer * first_version)::int8,
            ((row("o"."c96")::record operator(pg_catalog.*<>) row("n"."c96")::record)::integer * first_version)::int8,
            ((row("o"."c97")::record operator(pg_catalog.*<>) row("n"."c97")::record)::integer * first_version)::int8,
            ((row("o"."c98")::record operator(pg_catalog.*<>) row("n"."c98")::record)::integer * first_version)::int8,
            ((row("o"."c99")::record operator(pg_catalog.*<>) row("n"."c99")::record)::integer * first_version)::int8,
            ((row("o"."c100")::record operator(pg_catalog.*<>) row("n"."c100")::record)::integer * first_version)::int8,
            ((row("o"."c101")::record operator(pg_catalog.*<>) row("n"."c101")::record)::integer * first_version)::int8,
            ((row("o"."c102")::record operator(pg_catalog.*<>) row("n"."c102")::record)::integer * first_version)::int8,
            ((row("o"."c103")::record operator(pg_catalog.*<>) row("n"."c103")::record)::integer * first_version)::int8,
            ((row("o"."c104")::record operator(pg_catalog.*<>) row("n"."c104")::record)::integer * first_version)::int8,
            ((row("o"."c105")::record operator(pg_catalog.*<>) row("n"."c105")::record)::integer * first_version)::int8,
            ((row("o"."c106")::record operator(pg_catalog.*<>) row("n"."c106")::record)::integer * first_version)::int8,
            ((row("o"."c107")::record operator(pg_catalog.*<>) row("n"."c107")::record)::integer * first_version)::int8,
            ((row("o"."c108")::record operator(pg_catalog.*<>) row("n"."c108")::record)::integer * first_version)::int8,
            ((row("o"."c109")::record operator(pg_catalog.*<>) row("n"."c109")::record)::integer * first_version)::int8,
            ((row("o"."c110")::record operator(pg_catalog.*<>) row("n"."c110")::record)::integer * first_version)::int8,
            ((row("o"."c111")::record operator(pg_catalog.*<>) row("n"."c111")::record)::integer * first_version)::int8,
            ((row("o"."c112")::record operator(pg_catalog.*<>) row("n"."c112")::record)::integer * first_version)::int8,
            ((row("o"."c113")::record operator(pg_catalog.*<>) row("n"."c113")::record)::integer * first_version)::int8,
            ((row("o"."c114")::record operator(pg_catalog.*<>) row("n"."c114")::record)::integer * first_version)::int8,
            ((row("o"."c115")::record operator(pg_catalog.*<>) row("n"."c115")::record)::integer * first_version)::int8,
            ((row("o"."c116")::record operator(pg_catalog.*<>) row("n"."c116")::record)::integer * first_version)::int8,
            ((row("o"."c117")::record operator(pg_catalog.*<>) row("n"."c117")::record)::integer * first_version)::int8,
            ((row("o"."c118")::record operator(pg_catalog.*<>) row("n"."c118")::record)::integer * first_version)::int8,
            ((row("o"."c119")::record operator(pg_catalog.*<>) row("n"."c119")::record)::integer * first_version)::int8,
            ((row("o"."c120")::record operator(pg_catalog.*<>) row("n"."c120")::record)::integer * first_version)::int8,
            ((row("o"."c121")::record operator(pg_catalog.*<>) row("n"."c121")::record)::integer * first_version)::int8,
            ((row("o"."c122")::record operator(pg_catalog.*<>) row("n"."c122")::record)::integer * first_version)::int8,
            ((row("o"."c123")::record operator(pg_catalog.*<>) row("n"."c123")::record)::integer * first_version)::int8,
            ((row("o"."c124")::record operator(pg_catalog.*<>) row("n"."c124")::record)::integer * first_version)::int8,
            ((row("o"."c125")::record operator(pg_catalog.*<>) row("n"."c125")::record)::integer * first_version)::int8,
            ((row("o"."c126")::record operator(pg_catalog.*<>) row("n"."c126")::record)::integer * first_version)::int8,
            ((row("o"."c127")::record operator(pg_catalog.*<>) row("n"."c127")::record)::integer * first_version)::int8,
            ((row("o"."c128")::record operator(pg_catalog.*<>) row("n"."c128")::record)::integer * first_version)::int8,
            ((row("o"."c129")::record operator(pg_catalog.*<>) row("n"."c129")::record)::integer * first_version)::int8,
            ((row("o"."c130")::record operator(pg_catalog.*<>) row("n"."c130")::record)::integer * first_version)::int8,
            ((row("o"."c131")::record operator(pg_catalog.*<>) row("n"."c131")::record)::integer * first_version)::int8,
            ((row("o"."c132")::record operator(pg_catalog.*<>) row("n"."c132")::record)::integer * first_version)::int8,
            ((row("o"."c133")::record operator(pg_catalog.*<>) row("n"."c133")::record)::integer * first_version)::int8,
            ((row("o"."c134")::record operator(pg_catalog.*<>) row("n"."c134")::record)::integer * first_version)::int8,
            ((row("o"."c135")::record operator(pg_catalog.*<>) row("n"."c135")::record)::integer * first_version)::int8,
            ((row("o"."c136")::record operator(pg_catalog.*<>) row("n"."c136")::record)::integer * first_version)::int8,
            ((row("o"."c137")::record operator(pg_catalog.*<>) row("n"."c137")::record)::integer * first_version)::int8,
            ((row("o"."c138")::record operator(pg_catalog.*<>) row("n"."c138")::record)::integer * first_version)::int8,
            ((row("o"."c139")::record operator(pg_catalog.*<>) row("n"."c139")::record)::integer * first_version)::int8,
            ((row("o"."c140")::record operator(pg_catalog.*<>) row("n"."c140")::record)::integer * first_version)::int8,
            ((row("o"."c141")::record operator(pg_catalog.*<>) row("n"."c141")::record)::integer * first_version)::int8,
            ((row("o"."c142")::record operator(pg_catalog.*<>) row("n"."c142")::record)::integer * first_version)::int8,
            ((row("o"."c143")::record operator(pg_catalog.*<>) row("n"."c143")::record)::integer * first_version)::int8,
            ((row("o"."c144")::record operator(pg_catalog.*<>) row("n"."c144")::record)::integer * first_version)::int8,
            ((row("o"."c145")::record operator(pg_catalog.*<>) row("n"."c145")::record)::integer * first_version)::int8,
            ((row("o"."c146")::record operator(pg_catalog.*<>) row("n"."c146")::record)::integer * first_version)::int8,
            ((row("o"."c147")::record operator(pg_catalog.*<>) row("n"."c147")::record)::integer * first_version)::int8,
            ((row("o"."c148")::record operator(pg_catalog.*<>) row("n"."c148")::record)::integer * first_version)::int8,
            ((row("o"."c149")::record operator(pg_catalog.*<>) row("n"."c149")::record)::integer * first_version)::int8,
            ((row("o"."c150")::record operator(pg_catalog.*<>) row("n"."c150")::record)::integer * first_version)::int8,
            ((row("o"."c151")::record operator(pg_catalog.*<>) row("n"."c151")::record)::integer * first_version)::int8,
            ((row("o"."c152")::record operator(pg_catalog.*<>) row("n"."c152")::record)::integer * first_version)::int8,
            ((row("o"."c153")::record operator(pg_catalog.*<>) row("n"."c153")::record)::integer * first_version)::int8,
            ((row("o"."c154")::record operator(pg_catalog.*<>) row("n"."c154")::record)::integer * first_version)::int8,
            ((row("o"."c155")::record operator(pg_catalog.*<>) row("n"."c155")::record)::integer * first_version)::int8,
            ((row("o"."c156")::record operator(pg_catalog.*<>) row("n"."c156")::record)::integer * first_version)::int8,
            ((row("o"."c157")::record operator(pg_catalog.*<>) row("n"."c157")::record)::integer * first_version)::int8,
            ((row("o"."c158")::record operator(pg_catalog.*<>) row("n"."c158")::record)::integer * first_version)::int8,
            ((row("o"."c159")::record operator(pg_catalog.*<>) row("n"."c159")::record)::integer * first_version)::int8,
            ((row("o"."c160")::record operator(pg_catalog.*<>) row("n"."c160")::record)::integer * first_version)::int8,
            ((row("o"."c161")::record operator(pg_catalog.*<>) row("n"."c161")::record)::integer * first_version)::int8,
            ((row("o"."c162")::record operator(pg_catalog.*<>) row("n"."c162")::record)::integer * first_version)::int8,
            ((row("o"."c163")::record operator(pg_catalog.*<>) row("n"."c163")::record)::integer * first_version)::int8,
            ((row("o"."c164")::record operator(pg_catalog.*<>) row("n"."c164")::record)::integer * first_version)::int8,
            ((row("o"."c165")::record operator(pg_catalog.*<>) row("n"."c165")::record)::integer * first_version)::int8,
            ((row("o"."c166")::record operator(pg_catalog.*<>) row("n"."c166")::record)::integer * first_version)::int8,
            ((row("o"."c167")::record operator(pg_catalog.*<>) row("n"."c167")::record)::integer * first_version)::int8,
            ((row("o"."c168")::record operator(pg_catalog.*<>) row("n"."c168")::record)::integer * first_version)::int8,
            ((row("o"."c169")::record operator(pg_catalog.*<>) row("n"."c169")::record)::integer * first_version)::int8,
            ((row("o"."c170")::record operator(pg_catalog.*<>) row("n"."c170")::record)::integer * first_version)::int8,
            ((row("o"."c171")::record operator(pg_catalog.*<>) row("n"."c171")::record)::integer * first_version)::int8,
            ((row("o"."c172")::record operator(pg_catalog.*<>) row("n"."c172")::record)::integer * first_version)::int8,
            ((row("o"."c173")::record operator(pg_catalog.*<>) row("n"."c173")::record)::integer * first_version)::int8,
            ((row("o"."c174")::record operator(pg_catalog.*<>) row("n"."c174")::record)::integer * first_version)::int8,
            ((row("o"."c175")::record operator(pg_catalog.*<>) row("n"."c175")::record)::integer * first_version)::int8,
            ((row("o"."c176")::record operator(pg_catalog.*<>) row("n"."c176")::record)::integer * first_version)::int8,
            ((row("o"."c177")::record operator(pg_catalog.*<>) row("n"."c177")::record)::integer * first_version)::int8,
            ((row("o"."c178")::record operator(pg_catalog.*<>) row("n"."c178")::record)::integer * first_version)::int8,
            ((row("o"."c179")::record operator(pg_catalog.*<>) row("n"."c179")::record)::integer * first_version)::int8,
            ((row("o"."c180")::record operator(pg_catalog.*<>) row("n"."c180")::record)::integer * first_version)::int8,
            ((row("o"."c181")::record operator(pg_catalog.*<>) row("n"."c181")::record)::integer * first_version)::int8,
            ((row("o"."c182")::record operator(pg_catalog.*<>) row("n"."c182")::record)::integer * first_version)::int8,
            ((row("o"."c183")::record operator(pg_catalog.*<>) row("n"."c183")::record)::integer * first_version)::int8,
            ((row("o"."c184")::record operator(pg_catalog.*<>) row("n"."c184")::record)::integer * first_version)::int8,
            ((row("o"."c185")::record operator(pg_catalog.*<>) row("n"."c185")::record)::integer * first_version)::int8,
            ((row("o"."c186")::record operator(pg_catalog.*<>) row("n"."c186")::record)::integer * first_version)::int8,
            ((row("o"."c187")::record operator(pg_catalog.*<>) row("n"."c187")::record)::integer * first_version)::int8,
            ((row("o"."c188")::record operator(pg_catalog.*<>) row("n"."c188")::record)::integer * first_version)::int8,
            ((row("o"."c189")::record operator(pg_catalog.*<>) row("n"."c189")::record)::integer * first_version)::int8,
            ((row("o"."c190")::record operator(pg_catalog.*<>) row("n"."c190")::record)::integer * first_version)::int8,
            ((row("o"."c191")::record operator(pg_catalog.*<>) row("n"."c191")::record)::integer * first_version)::int8,
            ((row("o"."c192")::record operator(pg_catalog.*<>) row("n"."c192")::record)::integer * first_version)::int8,
            ((row("o"."c193")::record operator(pg_catalog.*<>) row("n"."c193")::record)::integer * first_version)::int8,
            ((row("o"."c194")::record operator(pg_catalog.*<>) row("n"."c194")::record)::integer * first_version)::int8,
            ((row("o"."c195")::record operator(pg_catalog.*<>) row("n"."c195")::record)::integer * first_version)::int8,
            ((row("o"."c196")::record operator(pg_catalog.*<>) row("n"."c196")::record)::integer * first_version)::int8,
            ((row("o"."c197")::record operator(pg_catalog.*<>) row("n"."c197")::record)::integer * first_version)::int8,
            ((row("o"."c198")::record operator(pg_catalog.*<>) row("n"."c198")::record)::integer * first_version)::int8,
            ((row("o"."c199")::record operator(pg_catalog.*<>) row("n"."c199")::record)::integer * first_version)::int8,
            ((row("o"."c200")::record operator(pg_catalog.*<>) row("n"."c200")::record)::integer * first_version)::int8,
            ((row("o"."c201")::record operator(pg_catalog.*<>) row("n"."c201")::record)::integer * first_version)::int8,
            ((row("o"."c202")::record operator(pg_catalog.*<>) row("n"."c202")::record)::integer * first_version)::int8,
            ((row("o"."c203")::record operator(pg_catalog.*<>) row("n"."c203")::record)::integer * first_version)::int8,
            ((row("o"."c204")::record operator(pg_catalog.*<>) row("n"."c204")::record)::integer * first_version)::int8,
            ((row("o"."c205")::record operator(pg_catalog.*<>) row("n"."c205")::record)::integer * first_version)::int8,
            ((row("o"."c206")::record operator(pg_catalog.*<>) row("n"."c206")::record)::integer * first_version)::int8,
            ((row("o"."c207")::record operator(pg_catalog.*<>) row("n"."c207")::record)::integer * first_version)::int8,
            ((row("o"."c208")::record operator(pg_catalog.*<>) row("n"."c208")::record)::integer * first_version)::int8,
            ((row("o"."c209")::record operator(pg_catalog.*<>) row("n"."c209")::record)::integer * first_version)::int8,
            ((row("o"."c210")::record operator(pg_catalog.*<>) row("n"."c210")::record)::integer * first_version)::int8,
            ((row("o"."c211")::record operator(pg_catalog.*<>) row("n"."c211")::record)::integer * first_version)::int8,
            ((row("o"."c212")::record operator(pg_catalog.*<>) row("n"."c212")::record)::integer * first_version)::int8,
            ((row("o"."c213")::record operator(pg_catalog.*<>) row("n"."c213")::record)::integer * first_version)::int8,
            ((row("o"."c214")::record operator(pg_catalog.*<>) row("n"."c214")::record)::integer * first_version)::int8,
            ((row("o"."c215")::record operator(pg_catalog.*<>) row("n"."c215")::record)::integer * first_version)::int8,
            ((row("o"."c216")::record operator(pg_catalog.*<>) row("n"."c216")::record)::integer * first_version)::int8,
            ((row("o"."c217")::record operator(pg_catalog.*<>) row("n"."c217")::record)::integer * first_version)::int8,
            ((row("o"."c218")::record operator(pg_catalog.*<>) row("n"."c218")::record)::integer * first_version)::int8,
            ((row("o"."c219")::record operator(pg_catalog.*<>) row("n"."c219")::record)::integer * first_version)::int8,
            ((row("o"."c220")::record operator(pg_catalog.*<>) row("n"."c220")::record)::integer * first_version)::int8,
            ((row("o"."c221")::record operator(pg_catalog.*<>) row("n"."c221")::record)::integer * first_version)::int8,
            ((row("o"."c222")::record operator(pg_catalog.*<>) row("n"."c222")::record)::integer * first_version)::int8,
            ((row("o"."c223")::record operator(pg_catalog.*<>) row("n"."c223")::record)::integer * first_version)::int8,
            ((row("o"."c224")::record operator(pg_catalog.*<>) row("n"."c224")::record)::integer * first_version)::int8,
            ((row("o"."c225")::record operator(pg_catalog.*<>) row("n"."c225")::record)::integer * first_version)::int8,
            ((row("o"."c226")::record operator(pg_catalog.*<>) row("n"."c226")::record)::integer * first_version)::int8,
            ((row("o"."c227")::record operator(pg_catalog.*<>) row("n"."c227")::record)::integer * first_version)::int8,
            ((row("o"."c228")::record operator(pg_catalog.*<>) row("n"."c228")::record)::integer * first_version)::int8,
            ((row("o"."c229")::record operator(pg_catalog.*<>) row("n"."c229")::record)::integer * first_version)::int8,
            ((row("o"."c230")::record operator(pg_catalog.*<>) row("n"."c230")::record)::integer * first_version)::int8,
            ((row("o"."c231")::record operator(pg_catalog.*<>) row("n"."c231")::record)::integer * first_version)::int8,
            ((row("o"."c232")::record operator(pg_catalog.*<>) row("n"."c232")::record)::integer * first_version)::int8,
            ((row("o"."c233")::record operator(pg_catalog.*<>) row("n"."c233")::record)::integer * first_version)::int8,
            ((row("o"."c234")::record operator(pg_catalog.*<>) row("n"."c234")::record)::integer * first_version)::int8,
            ((row("o"."c235")::record operator(pg_catalog.*<>) row("n"."c235")::record)::integer * first_version)::int8,
            ((row("o"."c236")::record operator(pg_catalog.*<>) row("n"."c236")::record)::integer * first_version)::int8,
            ((row("o"."c237")::record operator(pg_catalog.*<>) row("n"."c237")::record)::integer * first_version)::int8,
            ((row("o"."c238")::record operator(pg_catalog.*<>) row("n"."c238")::record)::integer * first_version)::int8,
            ((row("o"."c239")::record operator(pg_catalog.*<>) row("n"."c239")::record)::integer * first_version)::int8,
            ((row("o"."c240")::record operator(pg_catalog.*<>) row("n"."c240")::record)::integer * first_version)::int8,
            ((row("o"."c241")::record operator(pg_catalog.*<>) row("n"."c241")::record)::integer * first_version)::int8,
            ((row("o"."c242")::record operator(pg_catalog.*<>) row("n"."c242")::record)::integer * first_version)::int8,
            ((row("o"."c243")::record operator(pg_catalog.*<>) row("n"."c243")::record)::integer * first_version)::int8,
            ((row("o"."c244")::record operator(pg_catalog.*<>) row("n"."c244")::record)::integer * first_version)::int8,
            ((row("o"."c245")::record operator(pg_catalog.*<>) row("n"."c245")::record)::integer * first_version)::int8,
            ((row("o"."c246")::record operator(pg_catalog.*<>) row("n"."c246")::record)::integer * first_version)::int8]
        from inserted as n join deleted as o on o."rowguid" operator(pg_catalog.=) n."rowguid"
        on conflict (rowguid) do update
        set xid = excluded.xid, gone = false, own = m.top + 1, top = m.top + 1,
            colv = array[case excluded.colv[1] when 0 then coalesce(m.colv[1], 0) else m.top + 1 end,
            case excluded.colv[2] when 0 then coalesce(m.colv[2], 0) else m.top + 1 end,
            case excluded.colv[3] when 0 then coalesce(m.colv[3], 0) else m.top + 1 end,
            case excluded.colv[4] when 0 then coalesce(m.colv[4], 0) else m.top + 1 end,
            case excluded.colv[5] when 0 then coalesce(m.colv[5], 0) else m.top + 1 end,
            case excluded.colv[6] when 0 then coalesce(m.colv[6], 0) else m.top + 1 end,
            case excluded.colv[7] when 0 then coalesce(m.colv[7], 0) else m.top + 1 end,
            case excluded.colv[8] when 0 then coalesce(m.colv[8], 0) else m.top + 1 end,
            case excluded.colv[9] when 0 then coalesce(m.colv[9], 0) else m.top + 1 end,
            case excluded.colv[10] when 0 then coalesce(m.colv[10], 0) else m.top + 1 end,
            case excluded.colv[11] when 0 then coalesce(m.colv[11], 0) else m.top + 1 end,
            case excluded.colv[12] when 0 then coalesce(m.colv[12], 0) else m.top + 1 end,
            case excluded.colv[13] when 0 then coalesce(m.colv[13], 0) else m.top + 1 end,
            case excluded.colv[14] when 0 then coalesce(m.colv[14], 0) else m.top + 1 end,
            case excluded.colv[15] when 0 then coalesce(m.colv[15], 0) else m.top + 1 end,
            case excluded.colv[16] when 0 then coalesce(m.colv[16], 0) else m.top + 1 end,
            case excluded.colv[17] when 0 then coalesce(m.colv[17], 0) else m.top + 1 end,
            case excluded.colv[18] when 0 then coalesce(m.colv[18], 0) else m.top + 1 end,
            case excluded.colv[19] when 0 then coalesce(m.colv[19], 0) else m.top + 1 end,
            case excluded.colv[20] when 0 then coalesce(m.colv[20], 0) else m.top + 1 end,
            case excluded.colv[21] when 0 then coalesce(m.colv[21], 0) else m.top + 1 end,
            case excluded.colv[22] when 0 then coalesce(m.colv[22], 0) else m.top + 1 end,
            case excluded.colv[23] when 0 then coalesce(m.colv[23], 0) else m.top + 1 end,
            case excluded.colv[24] when 0 then coalesce(m.colv[24], 0) else m.top + 1 end,
            case excluded.colv[25] when 0 then coalesce(m.colv[25], 0) else m.top + 1 end,
            case excluded.colv[26] when 0 then coalesce(m.colv[26], 0) else m.top + 1 end,
            case excluded.colv[27] when 0 then coalesce(m.colv[27], 0) else m.top + 1 end,
            case excluded.colv[28] when 0 then coalesce(m.colv[28], 0) else m.top + 1 end,
            case excluded.colv[29] when 0 then coalesce(m.colv[29], 0) else m.top + 1 end,
            case excluded.colv[30] when 0 then coalesce(m.colv[30], 0) else m.top + 1 end,
            case excluded.colv[31] when 0 then coalesce(m.colv[31], 0) else m.top + 1 end,
            case excluded.colv[32] when 0 then coalesce(m.colv[32], 0) else m.top + 1 end,
            case excluded.colv[33] when 0 then coalesce(m.colv[33], 0) else m.top + 1 end,
            case excluded.colv[34] when 0 then coalesce(m.colv[34], 0) else m.top + 1 end,
            case excluded.colv[35] when 0 then coalesce(m.colv[35], 0) else m.top + 1 end,
            case excluded.colv[36] when 0 then coalesce(m.colv[36], 0) else m.top + 1 end,
            case excluded.colv[37] when 0 then coalesce(m.colv[37], 0) else m.top + 1 end,
            case excluded.colv[38] when 0 then coalesce(m.colv[38], 0) else m.top + 1 end,
            case excluded.colv[39] when 0 then coalesce(m.colv[39], 0) else m.top + 1 end,
            case excluded.colv[40] when 0 then coalesce(m.colv[40], 0) else m.top + 1 end,
            case excluded.colv[41] when 0 then coalesce(m.colv[41], 0) else m.top + 1 end,
            case excluded.colv[42] when 0 then coalesce(m.colv[42], 0) else m.top + 1 end,
            case excluded.colv[43] when 0 then coalesce(m.colv[43], 0) else m.top + 1 end,
            case excluded.colv[44] when 0 then coalesce(m.colv[44], 0) else m.top + 1 end,
            case excluded.colv[45] when 0 then coalesce(m.colv[45], 0) else m.top + 1 end,
            case excluded.colv[46] when 0 then coalesce(m.colv[46], 0) else m.top + 1 end,
            case excluded.colv[47] when 0 then coalesce(m.colv[47], 0) else m.top + 1 end,
            case excluded.colv[48] when 0 then coalesce(m.colv[48], 0) else m.top + 1 end,
            case excluded.colv[49] when 0 then coalesce(m.colv[49], 0) else m.top + 1 end,
            case excluded.colv[50] when 0 then coalesce(m.colv[50], 0) else m.top + 1 end,
            case excluded.colv[51] when 0 then coalesce(m.colv[51], 0) else m.top + 1 end,
            case excluded.colv[52] when 0 then coalesce(m.colv[52], 0) else m.top + 1 end,
            case excluded.colv[53] when 0 then coalesce(m.colv[53], 0) else m.top + 1 end,
            case excluded.colv[54] when 0 then coalesce(m.colv[54], 0) else m.top + 1 end,
            case excluded.colv[55] when 0 then coalesce(m.colv[55], 0) else m.top + 1 end,
            case excluded.colv[56] when 0 then coalesce(m.colv[56], 0) else m.top + 1 end,
            case excluded.colv[57] when 0 then coalesce(m.colv[57], 0) else m.top + 1 end,
            case excluded.colv[58] when 0 then coalesce(m.colv[58], 0) else m.top + 1 end,
            case excluded.colv[59] when 0 then coalesce(m.colv[59], 0) else m.top + 1 end,
            case excluded.colv[60] when 0 then coalesce(m.colv[60], 0) else m.top + 1 end,
            case excluded.colv[61] when 0 then coalesce(m.colv[61], 0) else m.top + 1 end,
            case excluded.colv[62] when 0 then coalesce(m.colv[62], 0) else m.top + 1 end,
            case excluded.colv[63] when 0 then coalesce(m.colv[63], 0) else m.top + 1 end,
            case excluded.colv[64] when 0 then coalesce(m.colv[64], 0) else m.top + 1 end,
            case excluded.colv[65] when 0 then coalesce(m.colv[65], 0) else m.top + 1 end,
            case excluded.colv[66] when 0 then coalesce(m.colv[66], 0) else m.top + 1 end,
            case excluded.colv[67] when 0 then coalesce(m.colv[67], 0) else m.top + 1 end,
            case excluded.colv[68] when 0 then coalesce(m.colv[68], 0) else m.top + 1 end,
            case excluded.colv[69] when 0 then coalesce(m.colv[69], 0) else m.top + 1 end,
            case excluded.colv[70] when 0 then coalesce(m.colv[70], 0) else m.top + 1 end,
            case excluded.colv[71] when 0 then coalesce(m.colv[71], 0) else m.top + 1 end,
            case excluded.colv[72] when 0 then coalesce(m.colv[72], 0) else m.top + 1 end,
            case excluded.colv[73] when 0 then coalesce(m.colv[73], 0) else m.top + 1 end,
            case excluded.colv[74] when 0 then coalesce(m.colv[74], 0) else m.top + 1 end,
            case excluded.colv[75] when 0 then coalesce(m.colv[75], 0) else m.top + 1 end,
            case excluded.colv[76] when 0 then coalesce(m.colv[76], 0) else m.top + 1 end,
            case excluded.colv[77] when 0 then coalesce(m.colv[77], 0) else m.top + 1 end,
            case excluded.colv[78] when 0 then coalesce(m.colv[78], 0) else m.top + 1 end,
            case excluded.colv[79] when 0 then coalesce(m.colv[79], 0) else m.top + 1 end,
            case excluded.colv[80] when 0 then coalesce(m.colv[80], 0) else m.top + 1 end,
            case excluded.colv[81] when 0 then coalesce(m.colv[81], 0) else m.top + 1 end,
            case excluded.colv[82] when 0 then coalesce(m.colv[82], 0) else m.top + 1 end,
            case excluded.colv[83] when 0 then coalesce(m.colv[83], 0) else m.top + 1 end,
            case excluded.colv[84] when 0 then coalesce(m.colv[84], 0) else m.top + 1 end,
            case excluded.colv[85] when 0 then coalesce(m.colv[85], 0) else m.top + 1 end,
            case excluded.colv[86] when 0 then coalesce(m.colv[86], 0) else m.top + 1 end,
            case excluded.colv[87] when 0 then coalesce(m.colv[87], 0) else m.top + 1 end,
            case excluded.colv[88] when 0 then coalesce(m.colv[88], 0) else m.top + 1 end,
            case excluded.colv[89] when 0 then coalesce(m.colv[89], 0) else m.top + 1 end,
            case excluded.colv[90] when 0 then coalesce(m.colv[90], 0) else m.top + 1 end,
            case excluded.colv[91] when 0 then coalesce(m.colv[91], 0) else m.top + 1 end,
            case excluded.colv[92] when 0 then coalesce(m.colv[92], 0) else m.top + 1 end,
            case excluded.colv[93] when 0 then coalesce(m.colv[93], 0) else m.top + 1 end,
            case excluded.colv[94] when 0 then coalesce(m.colv[94], 0) else m.top + 1 end,
            case excluded.colv[95] when 0 then coalesce(m.colv[95], 0) else m.top + 1 end,
            case excluded.colv[96] when 0 then coalesce(m.colv[96], 0) else m.top + 1 end,
            case excluded.colv[97] when 0 then coalesce(m.colv[97], 0) else m.top + 1 end,
            case excluded.colv[98] when 0 then coalesce(m.colv[98], 0) else m.top + 1 end,
            case excluded.colv[99] when 0 then coalesce(m.colv[99], 0) else m.top + 1 end,
            case excluded.colv[100] when 0 then coalesce(m.colv[100], 0) else m.top + 1 end,
            case excluded.colv[101] when 0 then coalesce(m.colv[101], 0) else m.top + 1 end,
            case excluded.colv[102] when 0 then coalesce(m.colv[102], 0) else m.top + 1 end,
            case excluded.colv[103] when 0 then coalesce(m.colv[103], 0) else m.top + 1 end,
            case excluded.colv[104] when 0 then coalesce(m.colv[104], 0) else m.top + 1 end,
            case excluded.colv[105] when 0 then coalesce(m.colv[105], 0) else m.top + 1 end,
            case excluded.colv[106] when 0 then coalesce(m.colv[106], 0) else m.top + 1 end,
            case excluded.colv[107] when 0 then coalesce(m.colv[107], 0) else m.top + 1 end,
            case excluded.colv[108] when 0 then coalesce(m.colv[108], 0) else m.top + 1 end,
            case excluded.colv[109] when 0 then coalesce(m.colv[109], 0) else m.top + 1 end,
            case excluded.colv[110] when 0 then coalesce(m.colv[110], 0) else m.top + 1 end,
            case excluded.colv[111] when 0 then coalesce(m.colv[111], 0) else m.top + 1 end,
            case excluded.colv[112] when 0 then coalesce(m.colv[112], 0) else m.top + 1 end,
            case excluded.colv[113] when 0 then coalesce(m.colv[113], 0) else m.top + 1 end,
            case excluded.colv[114] when 0 then coalesce(m.colv[114], 0) else m.top + 1 end,
            case excluded.colv[115] when 0 then coalesce(m.colv[115], 0) else m.top + 1 end,
            case excluded.colv[116] when 0 then coalesce(m.colv[116], 0) else m.top + 1 end,
            case excluded.colv[117] when 0 then coalesce(m.colv[117], 0) else m.top + 1 end,
            case excluded.colv[118] when 0 then coalesce(m.colv[118], 0) else m.top + 1 end,
            case excluded.colv[119] when 0 then coalesce(m.colv[119], 0) else m.top + 1 end,
            case excluded.colv[120] when 0 then coalesce(m.colv[120], 0) else m.top + 1 end,
            case excluded.colv[121] when 0 then coalesce(m.colv[121], 0) else m.top + 1 end,
            case excluded.colv[122] when 0 then coalesce(m.colv[122], 0) else m.top + 1 end,
            case excluded.colv[123] when 0 then coalesce(m.colv[123], 0) else m.top + 1 end,
            case excluded.colv[124] when 0 then coalesce(m.colv[124], 0) else m.top + 1 end,
            case excluded.colv[125] when 0 then coalesce(m.colv[125], 0) else m.top + 1 end,
            case excluded.colv[126] when 0 then coalesce(m.colv[126], 0) else m.top + 1 end,
            case excluded.colv[127] when 0 then coalesce(m.colv[127], 0) else m.top + 1 end,
            case excluded.colv[128] when 0 then coalesce(m.colv[128], 0) else m.top + 1 end,
            case excluded.colv[129] when 0 then coalesce(m.colv[129], 0) else m.top + 1 end,
            case excluded.colv[130] when 0 then coalesce(m.colv[130], 0) else m.top + 1 end,
            case excluded.colv[131] when 0 then coalesce(m.colv[131], 0) else m.top + 1 end,
            case excluded.colv[132] when 0 then coalesce(m.colv[132], 0) else m.top + 1 end,
            case excluded.colv[133] when 0 then coalesce(m.colv[133], 0) else m.top + 1 end,
            case excluded.colv[134] when 0 then coalesce(m.colv[134], 0) else m.top + 1 end,
            case excluded.colv[135] when 0 then coalesce(m.colv[135], 0) else m.top + 1 end,
            case excluded.colv[136] when 0 then coalesce(m.colv[136], 0) else m.top + 1 end,
            case excluded.colv[137] when 0 then coalesce(m.colv[137], 0) else m.top + 1 end,
            case excluded.colv[138] when 0 then coalesce(m.colv[138], 0) else m.top + 1 end,
            case excluded.colv[139] when 0 then coalesce(m.colv[139], 0) else m.top + 1 end,
            case excluded.colv[140] when 0 then coalesce(m.colv[140], 0) else m.top + 1 end,
            case excluded.colv[141] when 0 then coalesce(m.colv[141], 0) else m.top + 1 end,
            case excluded.colv[142] when 0 then coalesce(m.colv[142], 0) else m.top + 1 end,
            case excluded.colv[143] when 0 then coalesce(m.colv[143], 0) else m.top + 1 end,
            case excluded.colv[144] when 0 then coalesce(m.colv[144], 0) else m.top + 1 end,
            case excluded.colv[145] when 0 then coalesce(m.colv[145], 0) else m.top + 1 end,
            case excluded.colv[146] when 0 then coalesce(m.colv[146], 0) else m.top + 1 end,
            case excluded.colv[147] when 0 then coalesce(m.colv[147], 0) else m.top + 1 end,
            case excluded.colv[148] when 0 then coalesce(m.colv[148], 0) else m.top + 1 end,
            case excluded.colv[149] when 0 then coalesce(m.colv[149], 0) else m.top + 1 end,
            case excluded.colv[150] when 0 then coalesce(m.colv[150], 0) else m.top + 1 end,
            case excluded.colv[151] when 0 then coalesce(m.colv[151], 0) else m.top + 1 end,
            case excluded.colv[152] when 0 then coalesce(m.colv[152], 0) else m.top + 1 end,
            case excluded.colv[153] when 0 then coalesce(m.colv[153], 0) else m.top + 1 end,
            case excluded.colv[154] when 0 then coalesce(m.colv[154], 0) else m.top + 1 end,
            case excluded.colv[155] when 0 then coalesce(m.colv[155], 0) else m.top + 1 end,
            case excluded.colv[156] when 0 then coalesce(m.colv[156], 0) else m.top + 1 end,
            case excluded.colv[157] when 0 then coalesce(m.colv[157], 0) else m.top + 1 end,
            case excluded.colv[158] when 0 then coalesce(m.colv[158], 0) else m.top + 1 end,
            case excluded.colv[159] when 0 then coalesce(m.colv[159], 0) else m.top + 1 end,
            case excluded.colv[160] when 0 then coalesce(m.colv[160], 0) else m.top + 1 end,
            case excluded.colv[161] when 0 then coalesce(m.colv[161], 0) else m.top + 1 end,
            case excluded.colv[162] when 0 then coalesce(m.colv[162], 0) else m.top + 1 end,
            case excluded.colv[163] when 0 then coalesce(m.colv[163], 0) else m.top + 1 end,
            case excluded.colv[164] when 0 then coalesce(m.colv[164], 0) else m.top + 1 end,
            case excluded.colv[165] when 0 then coalesce(m.colv[165], 0) else m.top + 1 end,
            case excluded.colv[166] when 0 then coalesce(m.colv[166], 0) else m.top + 1 end,
            case excluded.colv[167] when 0 then coalesce(m.colv[167], 0) else m.top + 1 end,
            case excluded.colv[168] when 0 then coalesce(m.colv[168], 0) else m.top + 1 end,
            case excluded.colv[169] when 0 then coalesce(m.colv[169], 0) else m.top + 1 end,
            case excluded.colv[170] when 0 then coalesce(m.colv[170], 0) else m.top + 1 end,
            case excluded.colv[171] when 0 then coalesce(m.colv[171], 0) else m.top + 1 end,
            case excluded.colv[172] when 0 then coalesce(m.colv[172], 0) else m.top + 1 end,
            case excluded.colv[173] when 0 then coalesce(m.colv[173], 0) else m.top + 1 end,
            case excluded.colv[174] when 0 then coalesce(m.colv[174], 0) else m.top + 1 end,
            case excluded.colv[175] when 0 then coalesce(m.colv[175], 0) else m.top + 1 end,
            case excluded.colv[176] when 0 then coalesce(m.colv[176], 0) else m.top + 1 end,
            case excluded.colv[177] when 0 then coalesce(m.colv[177], 0) else m.top + 1 end,
            case excluded.colv[178] when 0 then coalesce(m.colv[178], 0) else m.top + 1 end,
            case excluded.colv[179] when 0 then coalesce(m.colv[179], 0) else m.top + 1 end,
            case excluded.colv[180] when 0 then coalesce(m.colv[180], 0) else m.top + 1 end,
            case excluded.colv[181] when 0 then coalesce(m.colv[181], 0) else m.top + 1 end,
            case excluded.colv[182] when 0 then coalesce(m.colv[182], 0) else m.top + 1 end,
            case excluded.colv[183] when 0 then coalesce(m.colv[183], 0) else m.top + 1 end,
            case excluded.colv[184] when 0 then coalesce(m.colv[184], 0) else m.top + 1 end,
            case excluded.colv[185] when 0 then coalesce(m.colv[185], 0) else m.top + 1 end,
            case excluded.colv[186] when 0 then coalesce(m.colv[186], 0) else m.top + 1 end,
            case excluded.colv[187] when 0 then coalesce(m.colv[187], 0) else m.top + 1 end,
            case excluded.colv[188] when 0 then coalesce(m.colv[188], 0) else m.top + 1 end,
            case excluded.colv[189] when 0 then coalesce(m.colv[189], 0) else m.top + 1 end,
            case excluded.colv[190] when 0 then coalesce(m.colv[190], 0) else m.top + 1 end,
            case excluded.colv[191] when 0 then coalesce(m.colv[191], 0) else m.top + 1 end,
            case excluded.colv[192] when 0 then coalesce(m.colv[192], 0) else m.top + 1 end,
            case excluded.colv[193] when 0 then coalesce(m.colv[193], 0) else m.top + 1 end,
            case excluded.colv[194] when 0 then coalesce(m.colv[194], 0) else m.top + 1 end,
            case excluded.colv[195] when 0 then coalesce(m.colv[195], 0) else m.top + 1 end,
            case excluded.colv[196] when 0 then coalesce(m.colv[196], 0) else m.top + 1 end,
            case excluded.colv[197] when 0 then coalesce(m.colv[197], 0) else m.top + 1 end,
            case excluded.colv[198] when 0 then coalesce(m.colv[198], 0) else m.top + 1 end,
            case excluded.colv[199] when 0 then coalesce(m.colv[199], 0) else m.top + 1 end,
            case excluded.colv[200] when 0 then coalesce(m.colv[200], 0) else m.top + 1 end,
            case excluded.colv[201] when 0 then coalesce(m.colv[201], 0) else m.top + 1 end,
            case excluded.colv[202] when 0 then coalesce(m.colv[202], 0) else m.top + 1 end,
            case excluded.colv[203] when 0 then coalesce(m.colv[203], 0) else m.top + 1 end,
            case excluded.colv[204] when 0 then coalesce(m.colv[204], 0) else m.top + 1 end,
            case excluded.colv[205] when 0 then coalesce(m.colv[205], 0) else m.top + 1 end,
            case excluded.colv[206] when 0 then coalesce(m.colv[206], 0) else m.top + 1 end,
            case excluded.colv[207] when 0 then coalesce(m.colv[207], 0) else m.top + 1 end,
            case excluded.colv[208] when 0 then coalesce(m.colv[208], 0) else m.top + 1 end,
            case excluded.colv[209] when 0 then coalesce(m.colv[209], 0) else m.top + 1 end,
            case excluded.colv[210] when 0 then coalesce(m.colv[210], 0) else m.top + 1 end,
            case excluded.colv[211] when 0 then coalesce(m.colv[211], 0) else m.top + 1 end,
            case excluded.colv[212] when 0 then coalesce(m.colv[212], 0) else m.top + 1 end,
            case excluded.colv[213] when 0 then coalesce(m.colv[213], 0) else m.top + 1 end,
            case excluded.colv[214] when 0 then coalesce(m.colv[214], 0) else m.top + 1 end,
            case excluded.colv[215] when 0 then coalesce(m.colv[215], 0) else m.top + 1 end,
            case excluded.colv[216] when 0 then coalesce(m.colv[216], 0) else m.top + 1 end,
            case excluded.colv[217] when 0 then coalesce(m.colv[217], 0) else m.top + 1 end,
            case excluded.colv[218] when 0 then coalesce(m.colv[218], 0) else m.top + 1 end,
            case excluded.colv[219] when 0 then coalesce(m.colv[219], 0) else m.top + 1 end,
            case excluded.colv[220] when 0 then coalesce(m.colv[220], 0) else m.top + 1 end,
            case excluded.colv[221] when 0 then coalesce(m.colv[221], 0) else m.top + 1 end,
            case excluded.colv[222] when 0 then coalesce(m.colv[222], 0) else m.top + 1 end,
            case excluded.colv[223] when 0 then coalesce(m.colv[223], 0) else m.top + 1 end,
            case excluded.colv[224] when 0 then coalesce(m.colv[224], 0) else m.top + 1 end,
            case excluded.colv[225] when 0 then coalesce(m.colv[225], 0) else m.top + 1 end,
            case excluded.colv[226] when 0 then coalesce(m.colv[226], 0) else m.top + 1 end,
            case excluded.colv[227] when 0 then coalesce(m.colv[227], 0) else m.top + 1 end,
            case excluded.colv[228] when 0 then coalesce(m.colv[228], 0) else m.top + 1 end,
            case excluded.colv[229] when 0 then coalesce(m.colv[229], 0) else m.top + 1 end,
            case excluded.colv[230] when 0 then coalesce(m.colv[230], 0) else m.top + 1 end,
            case excluded.colv[231] when 0 then coalesce(m.colv[231], 0) else m.top + 1 end,
            case excluded.colv[232] when 0 then coalesce(m.colv[232], 0) else m.top + 1 end,
            case excluded.colv[233] when 0 then coalesce(m.colv[233], 0) else m.top + 1 end,
            case excluded.colv[234] when 0 then coalesce(m.colv[234], 0) else m.top + 1 end,
            case excluded.colv[235] when 0 then coalesce(m.colv[235], 0) else m.top + 1 end,
            case excluded.colv[236] when 0 then coalesce(m.colv[236], 0) else m.top + 1 end,
            case excluded.colv[237] when 0 then coalesce(m.colv[237], 0) else m.top + 1 end,
            case excluded.colv[238] when 0 then coalesce(m.colv[238], 0) else m.top + 1 end,
            case excluded.colv[239] when 0 then coalesce(m.colv[239], 0) else m.top + 1 end,
            case excluded.colv[240] when 0 then coalesce(m.colv[240], 0) else m.top + 1 end,
            case excluded.colv[241] when 0 then coalesce(m.colv[241], 0) else m.top + 1 end,
            case excluded.colv[242] when 0 then coalesce(m.colv[242], 0) else m.top + 1 end,
            case excluded.colv[243] when 0 then coalesce(m.colv[243], 0) else m.top + 1 end,
            case excluded.colv[244] when 0 then coalesce(m.colv[244], 0) else m.top + 1 end,
            case excluded.colv[245] when 0 then coalesce(m.colv[245], 0) else m.top + 1 end,
            case excluded.colv[246] when 0 then coalesce(m.colv[246], 0) else m.top + 1 end],
            source = null, writer = null;
    end if;
    return null;
end
$msrepl$;
alter function "msrepl"."msmerge_upd_00112233445566778899aabbccddeeff"() owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."msmerge_upd_00112233445566778899aabbccddeeff"() from public;
comment on function "msrepl"."msmerge_upd_00112233445566778899aabbccddeeff"() is 'Records updates of t for merge replication';

-- msmerge_del_<artid>: records the rows that a DELETE has taken away.
-- called by: AFTER DELETE trigger of the article's table
-- tables:    transition table deleted; the article's part of msrepl.msmerge_metadata, msrepl.msmerge_floor_<nickname>
-- holes:     function, metadata, tablenick, floor, rowguid, owner, comment
create or replace function "msrepl"."msmerge_del_00112233445566778899aabbccddeeff"() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $msrepl$
declare
    first_version integer;
begin
    if pg_trigger_depth() = 1 and current_setting('session_replication_role') = 'replica' then
        return null;
    end if;
    first_version := (select f.last_value + 1 from "msrepl"."msmerge_floor_7" as f);
    insert into "msrepl"."msmerge_metadata_7" as m (tablenick, rowguid, xid, gone, own, top)
    select 7, o."rowguid", pg_current_xact_id(), true, first_version, first_version
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

-- The role that writes one published or subscribed table: in whose name its owner's expressions and triggers run.
-- called by: twopc.publisher.making, twopc.subscriber.subscription, twopc.subscriber.propagation
-- tables:    none
-- holes:     role, role_text, schema, table_schema, table, privileges, comment
--
-- It owns the functions that write this table for us, and may do nothing else: who owns a table of ours may put
-- code of his own into its constraints, indexes, domains, defaults and triggers.
do $msrepl$
begin
    if not exists (select from pg_roles where rolname = 'msrepl_table_c268110370c2_f059f10c4aed') then
        create role "msrepl_table_c268110370c2_f059f10c4aed" nologin;
        comment on role "msrepl_table_c268110370c2_f059f10c4aed" is 'Writes t for replication';
    end if;
end
$msrepl$;
grant usage on schema "msrepl", "public" to "msrepl_table_c268110370c2_f059f10c4aed";
grant select, insert, update, delete on "public"."t" to "msrepl_table_c268110370c2_f059f10c4aed";

-- msrepl.msmerge_row_<artid>: a row of an article on its way, without the column by which it is known.
-- called by: msmerge_write_<artid>, msmerge_log_<artid>
-- tables:    none
-- holes:     type, attributes, owner
create type "msrepl"."msmerge_row_00112233445566778899aabbccddeeff" as ("n1" , "n2" , "n3" , "n4" , "n5" , "n6" , "n7" , "n8" , "n9" , "n10" , "n11" , "n12" , "n13" , "n14" , "n15" , "n16" , "n17" , "n18" , "n19" , "n20" , "n21" , "n22" , "n23" , "n24" , "n25" , "n26" , "n27" , "n28" , "n29" , "n30" , "n31" , "n32" , "n33" , "n34" , "n35" , "n36" , "n37" , "n38" , "n39" , "n40" , "n41" , "n42" , "n43" , "n44" , "n45" , "n46" , "n47" , "n48" , "n49" , "n50" , "n51" , "n52" , "n53" , "n54" , "n55" , "n56" , "n57" , "n58" , "n59" , "n60" , "n61" , "n62" , "n63" , "n64" , "n65" , "n66" , "n67" , "n68" , "n69" , "n70" , "n71" , "n72" , "n73" , "n74" , "n75" , "n76" , "n77" , "n78" , "n79" , "n80" , "n81" , "n82" , "n83" , "n84" , "n85" , "n86" , "n87" , "n88" , "n89" , "n90" , "n91" , "n92" , "n93" , "n94" , "n95" , "n96" , "n97" , "n98" , "n99" , "n100" , "n101" , "n102" , "n103" , "n104" , "n105" , "n106" , "n107" , "n108" , "n109" , "n110" , "n111" , "n112" , "n113" , "n114" , "n115" , "n116" , "n117" , "n118" , "n119" , "n120" , "n121" , "n122" , "n123" , "n124" , "n125" , "n126" , "n127" , "n128" , "n129" , "n130" , "n131" , "n132" , "n133" , "n134" , "n135" , "n136" , "n137" , "n138" , "n139" , "n140" , "n141" , "n142" , "n143" , "n144" , "n145" , "n146" , "n147" , "n148" , "n149" , "n150" , "n151" , "n152" , "n153" , "n154" , "n155" , "n156" , "n157" , "n158" , "n159" , "n160" , "n161" , "n162" , "n163" , "n164" , "n165" , "n166" , "n167" , "n168" , "n169" , "n170" , "n171" , "n172" , "n173" , "n174" , "n175" , "n176" , "n177" , "n178" , "n179" , "n180" , "n181" , "n182" , "n183" , "n184" , "n185" , "n186" , "n187" , "n188" , "n189" , "n190" , "n191" , "n192" , "n193" , "n194" , "n195" , "n196" , "n197" , "n198" , "n199" , "n200" , "n201" , "n202" , "n203" , "n204" , "n205" , "n206" , "n207" , "n208" , "n209" , "n210" , "n211" , "n212" , "n213" , "n214" , "n215" , "n216" , "n217" , "n218" , "n219" , "n220" , "n221" , "n222" , "n223" , "n224" , "n225" , "n226" , "n227" , "n228" , "n229" , "n230" , "n231" , "n232" , "n233" , "n234" , "n235" , "n236" , "n237" , "n238" , "n239" , "n240" , "n241" , "n242" , "n243" , "n244" , "n245" , "n246" );
alter type "msrepl"."msmerge_row_00112233445566778899aabbccddeeff" owner to "msrepl_owner_0123456789ab";

-- msmerge_conflict_<publication>_<article>: rows that have lost a conflict, or could not be applied.
-- called by: msmerge_log_<artid>
-- tables:    itself
-- holes:     table, rowguid, columns, owner, role, comment
create table "msrepl"."msmerge_conflict_merge_t" (msrepl_conflict_id uuid primary key, "rowguid" uuid not null, "c1" , "c2" , "c3" , "c4" , "c5" , "c6" , "c7" , "c8" , "c9" , "c10" , "c11" , "c12" , "c13" , "c14" , "c15" , "c16" , "c17" , "c18" , "c19" , "c20" , "c21" , "c22" , "c23" , "c24" , "c25" , "c26" , "c27" , "c28" , "c29" , "c30" , "c31" , "c32" , "c33" , "c34" , "c35" , "c36" , "c37" , "c38" , "c39" , "c40" , "c41" , "c42" , "c43" , "c44" , "c45" , "c46" , "c47" , "c48" , "c49" , "c50" , "c51" , "c52" , "c53" , "c54" , "c55" , "c56" , "c57" , "c58" , "c59" , "c60" , "c61" , "c62" , "c63" , "c64" , "c65" , "c66" , "c67" , "c68" , "c69" , "c70" , "c71" , "c72" , "c73" , "c74" , "c75" , "c76" , "c77" , "c78" , "c79" , "c80" , "c81" , "c82" , "c83" , "c84" , "c85" , "c86" , "c87" , "c88" , "c89" , "c90" , "c91" , "c92" , "c93" , "c94" , "c95" , "c96" , "c97" , "c98" , "c99" , "c100" , "c101" , "c102" , "c103" , "c104" , "c105" , "c106" , "c107" , "c108" , "c109" , "c110" , "c111" , "c112" , "c113" , "c114" , "c115" , "c116" , "c117" , "c118" , "c119" , "c120" , "c121" , "c122" , "c123" , "c124" , "c125" , "c126" , "c127" , "c128" , "c129" , "c130" , "c131" , "c132" , "c133" , "c134" , "c135" , "c136" , "c137" , "c138" , "c139" , "c140" , "c141" , "c142" , "c143" , "c144" , "c145" , "c146" , "c147" , "c148" , "c149" , "c150" , "c151" , "c152" , "c153" , "c154" , "c155" , "c156" , "c157" , "c158" , "c159" , "c160" , "c161" , "c162" , "c163" , "c164" , "c165" , "c166" , "c167" , "c168" , "c169" , "c170" , "c171" , "c172" , "c173" , "c174" , "c175" , "c176" , "c177" , "c178" , "c179" , "c180" , "c181" , "c182" , "c183" , "c184" , "c185" , "c186" , "c187" , "c188" , "c189" , "c190" , "c191" , "c192" , "c193" , "c194" , "c195" , "c196" , "c197" , "c198" , "c199" , "c200" , "c201" , "c202" , "c203" , "c204" , "c205" , "c206" , "c207" , "c208" , "c209" , "c210" , "c211" , "c212" , "c213" , "c214" , "c215" , "c216" , "c217" , "c218" , "c219" , "c220" , "c221" , "c222" , "c223" , "c224" , "c225" , "c226" , "c227" , "c228" , "c229" , "c230" , "c231" , "c232" , "c233" , "c234" , "c235" , "c236" , "c237" , "c238" , "c239" , "c240" , "c241" , "c242" , "c243" , "c244" , "c245" , "c246" );
alter table "msrepl"."msmerge_conflict_merge_t" owner to "msrepl_owner_0123456789ab";
revoke all on "msrepl"."msmerge_conflict_merge_t" from public;
grant select, insert, update on "msrepl"."msmerge_conflict_merge_t" to "msrepl_table_c268110370c2_f059f10c4aed";
comment on table "msrepl"."msmerge_conflict_merge_t" is 'Rows that lost a conflict, or could not be applied, of t for merge replication';

-- msmerge_read_<artid>: rows of an article as text.
-- called by: msmerge_enumerate_<artid>; msmerge_take_<artid>
-- tables:    the article's table
-- holes:     function, runs_as, table, rowguid, columns, owner, caller, comment
create or replace function "msrepl"."msmerge_read_00112233445566778899aabbccddeeff"(guids uuid[]) returns table (rowguid uuid, "row" text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
begin
-- fragment: makes sure that a function that runs code of a table's owner runs in the name of its own owner.
-- called by: rendered into functions of a table's role, first
-- tables:    none
-- holes:     role_text
--
-- That code runs as the function's owner too, who may take SECURITY DEFINER or search_path away from it.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_f059f10c4aed' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_f059f10c4aed', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;

    return query
    select t."rowguid", row("t"."c1", "t"."c2", "t"."c3", "t"."c4", "t"."c5", "t"."c6", "t"."c7", "t"."c8", "t"."c9", "t"."c10", "t"."c11", "t"."c12", "t"."c13", "t"."c14", "t"."c15", "t"."c16", "t"."c17", "t"."c18", "t"."c19", "t"."c20", "t"."c21", "t"."c22", "t"."c23", "t"."c24", "t"."c25", "t"."c26", "t"."c27", "t"."c28", "t"."c29", "t"."c30", "t"."c31", "t"."c32", "t"."c33", "t"."c34", "t"."c35", "t"."c36", "t"."c37", "t"."c38", "t"."c39", "t"."c40", "t"."c41", "t"."c42", "t"."c43", "t"."c44", "t"."c45", "t"."c46", "t"."c47", "t"."c48", "t"."c49", "t"."c50", "t"."c51", "t"."c52", "t"."c53", "t"."c54", "t"."c55", "t"."c56", "t"."c57", "t"."c58", "t"."c59", "t"."c60", "t"."c61", "t"."c62", "t"."c63", "t"."c64", "t"."c65", "t"."c66", "t"."c67", "t"."c68", "t"."c69", "t"."c70", "t"."c71", "t"."c72", "t"."c73", "t"."c74", "t"."c75", "t"."c76", "t"."c77", "t"."c78", "t"."c79", "t"."c80", "t"."c81", "t"."c82", "t"."c83", "t"."c84", "t"."c85", "t"."c86", "t"."c87", "t"."c88", "t"."c89", "t"."c90", "t"."c91", "t"."c92", "t"."c93", "t"."c94", "t"."c95", "t"."c96", "t"."c97", "t"."c98", "t"."c99", "t"."c100", "t"."c101", "t"."c102", "t"."c103", "t"."c104", "t"."c105", "t"."c106", "t"."c107", "t"."c108", "t"."c109", "t"."c110", "t"."c111", "t"."c112", "t"."c113", "t"."c114", "t"."c115", "t"."c116", "t"."c117", "t"."c118", "t"."c119", "t"."c120", "t"."c121", "t"."c122", "t"."c123", "t"."c124", "t"."c125", "t"."c126", "t"."c127", "t"."c128", "t"."c129", "t"."c130", "t"."c131", "t"."c132", "t"."c133", "t"."c134", "t"."c135", "t"."c136", "t"."c137", "t"."c138", "t"."c139", "t"."c140", "t"."c141", "t"."c142", "t"."c143", "t"."c144", "t"."c145", "t"."c146", "t"."c147", "t"."c148", "t"."c149", "t"."c150", "t"."c151", "t"."c152", "t"."c153", "t"."c154", "t"."c155", "t"."c156", "t"."c157", "t"."c158", "t"."c159", "t"."c160", "t"."c161", "t"."c162", "t"."c163", "t"."c164", "t"."c165", "t"."c166", "t"."c167", "t"."c168", "t"."c169", "t"."c170", "t"."c171", "t"."c172", "t"."c173", "t"."c174", "t"."c175", "t"."c176", "t"."c177", "t"."c178", "t"."c179", "t"."c180", "t"."c181", "t"."c182", "t"."c183", "t"."c184", "t"."c185", "t"."c186", "t"."c187", "t"."c188", "t"."c189", "t"."c190", "t"."c191", "t"."c192", "t"."c193", "t"."c194", "t"."c195", "t"."c196", "t"."c197", "t"."c198", "t"."c199", "t"."c200", "t"."c201", "t"."c202", "t"."c203", "t"."c204", "t"."c205", "t"."c206", "t"."c207", "t"."c208", "t"."c209", "t"."c210", "t"."c211", "t"."c212", "t"."c213", "t"."c214", "t"."c215", "t"."c216", "t"."c217", "t"."c218", "t"."c219", "t"."c220", "t"."c221", "t"."c222", "t"."c223", "t"."c224", "t"."c225", "t"."c226", "t"."c227", "t"."c228", "t"."c229", "t"."c230", "t"."c231", "t"."c232", "t"."c233", "t"."c234", "t"."c235", "t"."c236", "t"."c237", "t"."c238", "t"."c239", "t"."c240", "t"."c241", "t"."c242", "t"."c243", "t"."c244", "t"."c245", "t"."c246")::text from "public"."t" as t
    where t."rowguid" operator(pg_catalog.=) any ($1);
end
$msrepl$;
alter function "msrepl"."msmerge_read_00112233445566778899aabbccddeeff"(uuid[]) owner to "msrepl_table_c268110370c2_f059f10c4aed";
revoke all on function "msrepl"."msmerge_read_00112233445566778899aabbccddeeff"(uuid[]) from public;
grant execute on function "msrepl"."msmerge_read_00112233445566778899aabbccddeeff"(uuid[]) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."msmerge_read_00112233445566778899aabbccddeeff"(uuid[]) is 'Reads rows of t for merge replication';

-- msmerge_lock_<artid>: locks rows of an article, in one order; those that are there.
-- called by: msmerge_take_<artid>
-- tables:    the article's table
-- holes:     function, runs_as, table, rowguid, owner, caller, comment
create or replace function "msrepl"."msmerge_lock_00112233445566778899aabbccddeeff"(guids uuid[]) returns table (rowguid uuid)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
begin
-- fragment: makes sure that a function that runs code of a table's owner runs in the name of its own owner.
-- called by: rendered into functions of a table's role, first
-- tables:    none
-- holes:     role_text
--
-- That code runs as the function's owner too, who may take SECURITY DEFINER or search_path away from it.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_f059f10c4aed' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_f059f10c4aed', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;

    return query
    select t."rowguid" from "public"."t" as t
    where t."rowguid" operator(pg_catalog.=) any ($1)
    order by t."rowguid" for update;
end
$msrepl$;
alter function "msrepl"."msmerge_lock_00112233445566778899aabbccddeeff"(uuid[]) owner to "msrepl_table_c268110370c2_f059f10c4aed";
revoke all on function "msrepl"."msmerge_lock_00112233445566778899aabbccddeeff"(uuid[]) from public;
grant execute on function "msrepl"."msmerge_lock_00112233445566778899aabbccddeeff"(uuid[]) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."msmerge_lock_00112233445566778899aabbccddeeff"(uuid[]) is 'Locks rows of t for merge replication';

-- msmerge_write_<artid>: writes rows of an article, in the name of the table's role.
-- called by: msmerge_take_<artid>
-- tables:    the article's table
-- holes:     function, runs_as, table, table_text, table_name, rowguid, row_type, attributes, assignments, values,
--            columns, column_count, identity_differs, owner, caller, comment
--
-- takens says which columns of an update are taken, NULL: all. Rows are found one by one by their index: any other
-- join reads the whole table for each slice. Rows that exchange values of a unique key clash one after the other: they
-- are deleted, and inserted again, in one statement, so that foreign keys see them as updated; likewise rows with
-- another value of a GENERATED ALWAYS identity, which no UPDATE can set. A table with columns
-- that do not travel would lose them: there such rows fail.
create or replace function "msrepl"."msmerge_write_00112233445566778899aabbccddeeff"(
    gone uuid[], guids uuid[], rows text[], takens text[], new_guids uuid[], new_rows text[]
) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_hashjoin = off set enable_mergejoin = off set enable_seqscan = off
as $msrepl$
#variable_conflict use_column
declare
    written bigint;
    count bigint;
    is_whole boolean;
    is_replaced boolean;
begin
-- fragment: makes sure that a function that runs code of a table's owner runs in the name of its own owner.
-- called by: rendered into functions of a table's role, first
-- tables:    none
-- holes:     role_text
--
-- That code runs as the function's owner too, who may take SECURITY DEFINER or search_path away from it.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_f059f10c4aed' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_f059f10c4aed', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;

    is_whole := 247 = (
        select count(*) from pg_attribute as a
        where a.attrelid = '"public"."t"'::regclass and a.attnum > 0 and not a.attisdropped and a.attgenerated = '');
    is_replaced := false;
    delete from "public"."t" as t where t."rowguid" operator(pg_catalog.=) any ($1);
    get diagnostics count = row_count;
    written := count;
    if not is_replaced then
        begin
            update "public"."t" as t
            set "c1" = case when w.taken is null or (w.taken::boolean[])[1] then w."n1" else t."c1" end,
                "c2" = case when w.taken is null or (w.taken::boolean[])[2] then w."n2" else t."c2" end,
                "c3" = case when w.taken is null or (w.taken::boolean[])[3] then w."n3" else t."c3" end,
                "c4" = case when w.taken is null or (w.taken::boolean[])[4] then w."n4" else t."c4" end,
                "c5" = case when w.taken is null or (w.taken::boolean[])[5] then w."n5" else t."c5" end,
                "c6" = case when w.taken is null or (w.taken::boolean[])[6] then w."n6" else t."c6" end,
                "c7" = case when w.taken is null or (w.taken::boolean[])[7] then w."n7" else t."c7" end,
                "c8" = case when w.taken is null or (w.taken::boolean[])[8] then w."n8" else t."c8" end,
                "c9" = case when w.taken is null or (w.taken::boolean[])[9] then w."n9" else t."c9" end,
                "c10" = case when w.taken is null or (w.taken::boolean[])[10] then w."n10" else t."c10" end,
                "c11" = case when w.taken is null or (w.taken::boolean[])[11] then w."n11" else t."c11" end,
                "c12" = case when w.taken is null or (w.taken::boolean[])[12] then w."n12" else t."c12" end,
                "c13" = case when w.taken is null or (w.taken::boolean[])[13] then w."n13" else t."c13" end,
                "c14" = case when w.taken is null or (w.taken::boolean[])[14] then w."n14" else t."c14" end,
                "c15" = case when w.taken is null or (w.taken::boolean[])[15] then w."n15" else t."c15" end,
                "c16" = case when w.taken is null or (w.taken::boolean[])[16] then w."n16" else t."c16" end,
                "c17" = case when w.taken is null or (w.taken::boolean[])[17] then w."n17" else t."c17" end,
                "c18" = case when w.taken is null or (w.taken::boolean[])[18] then w."n18" else t."c18" end,
                "c19" = case when w.taken is null or (w.taken::boolean[])[19] then w."n19" else t."c19" end,
                "c20" = case when w.taken is null or (w.taken::boolean[])[20] then w."n20" else t."c20" end,
                "c21" = case when w.taken is null or (w.taken::boolean[])[21] then w."n21" else t."c21" end,
                "c22" = case when w.taken is null or (w.taken::boolean[])[22] then w."n22" else t."c22" end,
                "c23" = case when w.taken is null or (w.taken::boolean[])[23] then w."n23" else t."c23" end,
                "c24" = case when w.taken is null or (w.taken::boolean[])[24] then w."n24" else t."c24" end,
                "c25" = case when w.taken is null or (w.taken::boolean[])[25] then w."n25" else t."c25" end,
                "c26" = case when w.taken is null or (w.taken::boolean[])[26] then w."n26" else t."c26" end,
                "c27" = case when w.taken is null or (w.taken::boolean[])[27] then w."n27" else t."c27" end,
                "c28" = case when w.taken is null or (w.taken::boolean[])[28] then w."n28" else t."c28" end,
                "c29" = case when w.taken is null or (w.taken::boolean[])[29] then w."n29" else t."c29" end,
                "c30" = case when w.taken is null or (w.taken::boolean[])[30] then w."n30" else t."c30" end,
                "c31" = case when w.taken is null or (w.taken::boolean[])[31] then w."n31" else t."c31" end,
                "c32" = case when w.taken is null or (w.taken::boolean[])[32] then w."n32" else t."c32" end,
                "c33" = case when w.taken is null or (w.taken::boolean[])[33] then w."n33" else t."c33" end,
                "c34" = case when w.taken is null or (w.taken::boolean[])[34] then w."n34" else t."c34" end,
                "c35" = case when w.taken is null or (w.taken::boolean[])[35] then w."n35" else t."c35" end,
                "c36" = case when w.taken is null or (w.taken::boolean[])[36] then w."n36" else t."c36" end,
                "c37" = case when w.taken is null or (w.taken::boolean[])[37] then w."n37" else t."c37" end,
                "c38" = case when w.taken is null or (w.taken::boolean[])[38] then w."n38" else t."c38" end,
                "c39" = case when w.taken is null or (w.taken::boolean[])[39] then w."n39" else t."c39" end,
                "c40" = case when w.taken is null or (w.taken::boolean[])[40] then w."n40" else t."c40" end,
                "c41" = case when w.taken is null or (w.taken::boolean[])[41] then w."n41" else t."c41" end,
                "c42" = case when w.taken is null or (w.taken::boolean[])[42] then w."n42" else t."c42" end,
                "c43" = case when w.taken is null or (w.taken::boolean[])[43] then w."n43" else t."c43" end,
                "c44" = case when w.taken is null or (w.taken::boolean[])[44] then w."n44" else t."c44" end,
                "c45" = case when w.taken is null or (w.taken::boolean[])[45] then w."n45" else t."c45" end,
                "c46" = case when w.taken is null or (w.taken::boolean[])[46] then w."n46" else t."c46" end,
                "c47" = case when w.taken is null or (w.taken::boolean[])[47] then w."n47" else t."c47" end,
                "c48" = case when w.taken is null or (w.taken::boolean[])[48] then w."n48" else t."c48" end,
                "c49" = case when w.taken is null or (w.taken::boolean[])[49] then w."n49" else t."c49" end,
                "c50" = case when w.taken is null or (w.taken::boolean[])[50] then w."n50" else t."c50" end,
                "c51" = case when w.taken is null or (w.taken::boolean[])[51] then w."n51" else t."c51" end,
                "c52" = case when w.taken is null or (w.taken::boolean[])[52] then w."n52" else t."c52" end,
                "c53" = case when w.taken is null or (w.taken::boolean[])[53] then w."n53" else t."c53" end,
                "c54" = case when w.taken is null or (w.taken::boolean[])[54] then w."n54" else t."c54" end,
                "c55" = case when w.taken is null or (w.taken::boolean[])[55] then w."n55" else t."c55" end,
                "c56" = case when w.taken is null or (w.taken::boolean[])[56] then w."n56" else t."c56" end,
                "c57" = case when w.taken is null or (w.taken::boolean[])[57] then w."n57" else t."c57" end,
                "c58" = case when w.taken is null or (w.taken::boolean[])[58] then w."n58" else t."c58" end,
                "c59" = case when w.taken is null or (w.taken::boolean[])[59] then w."n59" else t."c59" end,
                "c60" = case when w.taken is null or (w.taken::boolean[])[60] then w."n60" else t."c60" end,
                "c61" = case when w.taken is null or (w.taken::boolean[])[61] then w."n61" else t."c61" end,
                "c62" = case when w.taken is null or (w.taken::boolean[])[62] then w."n62" else t."c62" end,
                "c63" = case when w.taken is null or (w.taken::boolean[])[63] then w."n63" else t."c63" end,
                "c64" = case when w.taken is null or (w.taken::boolean[])[64] then w."n64" else t."c64" end,
                "c65" = case when w.taken is null or (w.taken::boolean[])[65] then w."n65" else t."c65" end,
                "c66" = case when w.taken is null or (w.taken::boolean[])[66] then w."n66" else t."c66" end,
                "c67" = case when w.taken is null or (w.taken::boolean[])[67] then w."n67" else t."c67" end,
                "c68" = case when w.taken is null or (w.taken::boolean[])[68] then w."n68" else t."c68" end,
                "c69" = case when w.taken is null or (w.taken::boolean[])[69] then w."n69" else t."c69" end,
                "c70" = case when w.taken is null or (w.taken::boolean[])[70] then w."n70" else t."c70" end,
                "c71" = case when w.taken is null or (w.taken::boolean[])[71] then w."n71" else t."c71" end,
                "c72" = case when w.taken is null or (w.taken::boolean[])[72] then w."n72" else t."c72" end,
                "c73" = case when w.taken is null or (w.taken::boolean[])[73] then w."n73" else t."c73" end,
                "c74" = case when w.taken is null or (w.taken::boolean[])[74] then w."n74" else t."c74" end,
                "c75" = case when w.taken is null or (w.taken::boolean[])[75] then w."n75" else t."c75" end,
                "c76" = case when w.taken is null or (w.taken::boolean[])[76] then w."n76" else t."c76" end,
                "c77" = case when w.taken is null or (w.taken::boolean[])[77] then w."n77" else t."c77" end,
                "c78" = case when w.taken is null or (w.taken::boolean[])[78] then w."n78" else t."c78" end,
                "c79" = case when w.taken is null or (w.taken::boolean[])[79] then w."n79" else t."c79" end,
                "c80" = case when w.taken is null or (w.taken::boolean[])[80] then w."n80" else t."c80" end,
                "c81" = case when w.taken is null or (w.taken::boolean[])[81] then w."n81" else t."c81" end,
                "c82" = case when w.taken is null or (w.taken::boolean[])[82] then w."n82" else t."c82" end,
                "c83" = case when w.taken is null or (w.taken::boolean[])[83] then w."n83" else t."c83" end,
                "c84" = case when w.taken is null or (w.taken::boolean[])[84] then w."n84" else t."c84" end,
                "c85" = case when w.taken is null or (w.taken::boolean[])[85] then w."n85" else t."c85" end,
                "c86" = case when w.taken is null or (w.taken::boolean[])[86] then w."n86" else t."c86" end,
                "c87" = case when w.taken is null or (w.taken::boolean[])[87] then w."n87" else t."c87" end,
                "c88" = case when w.taken is null or (w.taken::boolean[])[88] then w."n88" else t."c88" end,
                "c89" = case when w.taken is null or (w.taken::boolean[])[89] then w."n89" else t."c89" end,
                "c90" = case when w.taken is null or (w.taken::boolean[])[90] then w."n90" else t."c90" end,
                "c91" = case when w.taken is null or (w.taken::boolean[])[91] then w."n91" else t."c91" end,
                "c92" = case when w.taken is null or (w.taken::boolean[])[92] then w."n92" else t."c92" end,
                "c93" = case when w.taken is null or (w.taken::boolean[])[93] then w."n93" else t."c93" end,
                "c94" = case when w.taken is null or (w.taken::boolean[])[94] then w."n94" else t."c94" end,
                "c95" = case when w.taken is null or (w.taken::boolean[])[95] then w."n95" else t."c95" end,
                "c96" = case when w.taken is null or (w.taken::boolean[])[96] then w."n96" else t."c96" end,
                "c97" = case when w.taken is null or (w.taken::boolean[])[97] then w."n97" else t."c97" end,
                "c98" = case when w.taken is null or (w.taken::boolean[])[98] then w."n98" else t."c98" end,
                "c99" = case when w.taken is null or (w.taken::boolean[])[99] then w."n99" else t."c99" end,
                "c100" = case when w.taken is null or (w.taken::boolean[])[100] then w."n100" else t."c100" end,
                "c101" = case when w.taken is null or (w.taken::boolean[])[101] then w."n101" else t."c101" end,
                "c102" = case when w.taken is null or (w.taken::boolean[])[102] then w."n102" else t."c102" end,
                "c103" = case when w.taken is null or (w.taken::boolean[])[103] then w."n103" else t."c103" end,
                "c104" = case when w.taken is null or (w.taken::boolean[])[104] then w."n104" else t."c104" end,
                "c105" = case when w.taken is null or (w.taken::boolean[])[105] then w."n105" else t."c105" end,
                "c106" = case when w.taken is null or (w.taken::boolean[])[106] then w."n106" else t."c106" end,
                "c107" = case when w.taken is null or (w.taken::boolean[])[107] then w."n107" else t."c107" end,
                "c108" = case when w.taken is null or (w.taken::boolean[])[108] then w."n108" else t."c108" end,
                "c109" = case when w.taken is null or (w.taken::boolean[])[109] then w."n109" else t."c109" end,
                "c110" = case when w.taken is null or (w.taken::boolean[])[110] then w."n110" else t."c110" end,
                "c111" = case when w.taken is null or (w.taken::boolean[])[111] then w."n111" else t."c111" end,
                "c112" = case when w.taken is null or (w.taken::boolean[])[112] then w."n112" else t."c112" end,
                "c113" = case when w.taken is null or (w.taken::boolean[])[113] then w."n113" else t."c113" end,
                "c114" = case when w.taken is null or (w.taken::boolean[])[114] then w."n114" else t."c114" end,
                "c115" = case when w.taken is null or (w.taken::boolean[])[115] then w."n115" else t."c115" end,
                "c116" = case when w.taken is null or (w.taken::boolean[])[116] then w."n116" else t."c116" end,
                "c117" = case when w.taken is null or (w.taken::boolean[])[117] then w."n117" else t."c117" end,
                "c118" = case when w.taken is null or (w.taken::boolean[])[118] then w."n118" else t."c118" end,
                "c119" = case when w.taken is null or (w.taken::boolean[])[119] then w."n119" else t."c119" end,
                "c120" = case when w.taken is null or (w.taken::boolean[])[120] then w."n120" else t."c120" end,
                "c121" = case when w.taken is null or (w.taken::boolean[])[121] then w."n121" else t."c121" end,
                "c122" = case when w.taken is null or (w.taken::boolean[])[122] then w."n122" else t."c122" end,
                "c123" = case when w.taken is null or (w.taken::boolean[])[123] then w."n123" else t."c123" end,
                "c124" = case when w.taken is null or (w.taken::boolean[])[124] then w."n124" else t."c124" end,
                "c125" = case when w.taken is null or (w.taken::boolean[])[125] then w."n125" else t."c125" end,
                "c126" = case when w.taken is null or (w.taken::boolean[])[126] then w."n126" else t."c126" end,
                "c127" = case when w.taken is null or (w.taken::boolean[])[127] then w."n127" else t."c127" end,
                "c128" = case when w.taken is null or (w.taken::boolean[])[128] then w."n128" else t."c128" end,
                "c129" = case when w.taken is null or (w.taken::boolean[])[129] then w."n129" else t."c129" end,
                "c130" = case when w.taken is null or (w.taken::boolean[])[130] then w."n130" else t."c130" end,
                "c131" = case when w.taken is null or (w.taken::boolean[])[131] then w."n131" else t."c131" end,
                "c132" = case when w.taken is null or (w.taken::boolean[])[132] then w."n132" else t."c132" end,
                "c133" = case when w.taken is null or (w.taken::boolean[])[133] then w."n133" else t."c133" end,
                "c134" = case when w.taken is null or (w.taken::boolean[])[134] then w."n134" else t."c134" end,
                "c135" = case when w.taken is null or (w.taken::boolean[])[135] then w."n135" else t."c135" end,
                "c136" = case when w.taken is null or (w.taken::boolean[])[136] then w."n136" else t."c136" end,
                "c137" = case when w.taken is null or (w.taken::boolean[])[137] then w."n137" else t."c137" end,
                "c138" = case when w.taken is null or (w.taken::boolean[])[138] then w."n138" else t."c138" end,
                "c139" = case when w.taken is null or (w.taken::boolean[])[139] then w."n139" else t."c139" end,
                "c140" = case when w.taken is null or (w.taken::boolean[])[140] then w."n140" else t."c140" end,
                "c141" = case when w.taken is null or (w.taken::boolean[])[141] then w."n141" else t."c141" end,
                "c142" = case when w.taken is null or (w.taken::boolean[])[142] then w."n142" else t."c142" end,
                "c143" = case when w.taken is null or (w.taken::boolean[])[143] then w."n143" else t."c143" end,
                "c144" = case when w.taken is null or (w.taken::boolean[])[144] then w."n144" else t."c144" end,
                "c145" = case when w.taken is null or (w.taken::boolean[])[145] then w."n145" else t."c145" end,
                "c146" = case when w.taken is null or (w.taken::boolean[])[146] then w."n146" else t."c146" end,
                "c147" = case when w.taken is null or (w.taken::boolean[])[147] then w."n147" else t."c147" end,
                "c148" = case when w.taken is null or (w.taken::boolean[])[148] then w."n148" else t."c148" end,
                "c149" = case when w.taken is null or (w.taken::boolean[])[149] then w."n149" else t."c149" end,
                "c150" = case when w.taken is null or (w.taken::boolean[])[150] then w."n150" else t."c150" end,
                "c151" = case when w.taken is null or (w.taken::boolean[])[151] then w."n151" else t."c151" end,
                "c152" = case when w.taken is null or (w.taken::boolean[])[152] then w."n152" else t."c152" end,
                "c153" = case when w.taken is null or (w.taken::boolean[])[153] then w."n153" else t."c153" end,
                "c154" = case when w.taken is null or (w.taken::boolean[])[154] then w."n154" else t."c154" end,
                "c155" = case when w.taken is null or (w.taken::boolean[])[155] then w."n155" else t."c155" end,
                "c156" = case when w.taken is null or (w.taken::boolean[])[156] then w."n156" else t."c156" end,
                "c157" = case when w.taken is null or (w.taken::boolean[])[157] then w."n157" else t."c157" end,
                "c158" = case when w.taken is null or (w.taken::boolean[])[158] then w."n158" else t."c158" end,
                "c159" = case when w.taken is null or (w.taken::boolean[])[159] then w."n159" else t."c159" end,
                "c160" = case when w.taken is null or (w.taken::boolean[])[160] then w."n160" else t."c160" end,
                "c161" = case when w.taken is null or (w.taken::boolean[])[161] then w."n161" else t."c161" end,
                "c162" = case when w.taken is null or (w.taken::boolean[])[162] then w."n162" else t."c162" end,
                "c163" = case when w.taken is null or (w.taken::boolean[])[163] then w."n163" else t."c163" end,
                "c164" = case when w.taken is null or (w.taken::boolean[])[164] then w."n164" else t."c164" end,
                "c165" = case when w.taken is null or (w.taken::boolean[])[165] then w."n165" else t."c165" end,
                "c166" = case when w.taken is null or (w.taken::boolean[])[166] then w."n166" else t."c166" end,
                "c167" = case when w.taken is null or (w.taken::boolean[])[167] then w."n167" else t."c167" end,
                "c168" = case when w.taken is null or (w.taken::boolean[])[168] then w."n168" else t."c168" end,
                "c169" = case when w.taken is null or (w.taken::boolean[])[169] then w."n169" else t."c169" end,
                "c170" = case when w.taken is null or (w.taken::boolean[])[170] then w."n170" else t."c170" end,
                "c171" = case when w.taken is null or (w.taken::boolean[])[171] then w."n171" else t."c171" end,
                "c172" = case when w.taken is null or (w.taken::boolean[])[172] then w."n172" else t."c172" end,
                "c173" = case when w.taken is null or (w.taken::boolean[])[173] then w."n173" else t."c173" end,
                "c174" = case when w.taken is null or (w.taken::boolean[])[174] then w."n174" else t."c174" end,
                "c175" = case when w.taken is null or (w.taken::boolean[])[175] then w."n175" else t."c175" end,
                "c176" = case when w.taken is null or (w.taken::boolean[])[176] then w."n176" else t."c176" end,
                "c177" = case when w.taken is null or (w.taken::boolean[])[177] then w."n177" else t."c177" end,
                "c178" = case when w.taken is null or (w.taken::boolean[])[178] then w."n178" else t."c178" end,
                "c179" = case when w.taken is null or (w.taken::boolean[])[179] then w."n179" else t."c179" end,
                "c180" = case when w.taken is null or (w.taken::boolean[])[180] then w."n180" else t."c180" end,
                "c181" = case when w.taken is null or (w.taken::boolean[])[181] then w."n181" else t."c181" end,
                "c182" = case when w.taken is null or (w.taken::boolean[])[182] then w."n182" else t."c182" end,
                "c183" = case when w.taken is null or (w.taken::boolean[])[183] then w."n183" else t."c183" end,
                "c184" = case when w.taken is null or (w.taken::boolean[])[184] then w."n184" else t."c184" end,
                "c185" = case when w.taken is null or (w.taken::boolean[])[185] then w."n185" else t."c185" end,
                "c186" = case when w.taken is null or (w.taken::boolean[])[186] then w."n186" else t."c186" end,
                "c187" = case when w.taken is null or (w.taken::boolean[])[187] then w."n187" else t."c187" end,
                "c188" = case when w.taken is null or (w.taken::boolean[])[188] then w."n188" else t."c188" end,
                "c189" = case when w.taken is null or (w.taken::boolean[])[189] then w."n189" else t."c189" end,
                "c190" = case when w.taken is null or (w.taken::boolean[])[190] then w."n190" else t."c190" end,
                "c191" = case when w.taken is null or (w.taken::boolean[])[191] then w."n191" else t."c191" end,
                "c192" = case when w.taken is null or (w.taken::boolean[])[192] then w."n192" else t."c192" end,
                "c193" = case when w.taken is null or (w.taken::boolean[])[193] then w."n193" else t."c193" end,
                "c194" = case when w.taken is null or (w.taken::boolean[])[194] then w."n194" else t."c194" end,
                "c195" = case when w.taken is null or (w.taken::boolean[])[195] then w."n195" else t."c195" end,
                "c196" = case when w.taken is null or (w.taken::boolean[])[196] then w."n196" else t."c196" end,
                "c197" = case when w.taken is null or (w.taken::boolean[])[197] then w."n197" else t."c197" end,
                "c198" = case when w.taken is null or (w.taken::boolean[])[198] then w."n198" else t."c198" end,
                "c199" = case when w.taken is null or (w.taken::boolean[])[199] then w."n199" else t."c199" end,
                "c200" = case when w.taken is null or (w.taken::boolean[])[200] then w."n200" else t."c200" end,
                "c201" = case when w.taken is null or (w.taken::boolean[])[201] then w."n201" else t."c201" end,
                "c202" = case when w.taken is null or (w.taken::boolean[])[202] then w."n202" else t."c202" end,
                "c203" = case when w.taken is null or (w.taken::boolean[])[203] then w."n203" else t."c203" end,
                "c204" = case when w.taken is null or (w.taken::boolean[])[204] then w."n204" else t."c204" end,
                "c205" = case when w.taken is null or (w.taken::boolean[])[205] then w."n205" else t."c205" end,
                "c206" = case when w.taken is null or (w.taken::boolean[])[206] then w."n206" else t."c206" end,
                "c207" = case when w.taken is null or (w.taken::boolean[])[207] then w."n207" else t."c207" end,
                "c208" = case when w.taken is null or (w.taken::boolean[])[208] then w."n208" else t."c208" end,
                "c209" = case when w.taken is null or (w.taken::boolean[])[209] then w."n209" else t."c209" end,
                "c210" = case when w.taken is null or (w.taken::boolean[])[210] then w."n210" else t."c210" end,
                "c211" = case when w.taken is null or (w.taken::boolean[])[211] then w."n211" else t."c211" end,
                "c212" = case when w.taken is null or (w.taken::boolean[])[212] then w."n212" else t."c212" end,
                "c213" = case when w.taken is null or (w.taken::boolean[])[213] then w."n213" else t."c213" end,
                "c214" = case when w.taken is null or (w.taken::boolean[])[214] then w."n214" else t."c214" end,
                "c215" = case when w.taken is null or (w.taken::boolean[])[215] then w."n215" else t."c215" end,
                "c216" = case when w.taken is null or (w.taken::boolean[])[216] then w."n216" else t."c216" end,
                "c217" = case when w.taken is null or (w.taken::boolean[])[217] then w."n217" else t."c217" end,
                "c218" = case when w.taken is null or (w.taken::boolean[])[218] then w."n218" else t."c218" end,
                "c219" = case when w.taken is null or (w.taken::boolean[])[219] then w."n219" else t."c219" end,
                "c220" = case when w.taken is null or (w.taken::boolean[])[220] then w."n220" else t."c220" end,
                "c221" = case when w.taken is null or (w.taken::boolean[])[221] then w."n221" else t."c221" end,
                "c222" = case when w.taken is null or (w.taken::boolean[])[222] then w."n222" else t."c222" end,
                "c223" = case when w.taken is null or (w.taken::boolean[])[223] then w."n223" else t."c223" end,
                "c224" = case when w.taken is null or (w.taken::boolean[])[224] then w."n224" else t."c224" end,
                "c225" = case when w.taken is null or (w.taken::boolean[])[225] then w."n225" else t."c225" end,
                "c226" = case when w.taken is null or (w.taken::boolean[])[226] then w."n226" else t."c226" end,
                "c227" = case when w.taken is null or (w.taken::boolean[])[227] then w."n227" else t."c227" end,
                "c228" = case when w.taken is null or (w.taken::boolean[])[228] then w."n228" else t."c228" end,
                "c229" = case when w.taken is null or (w.taken::boolean[])[229] then w."n229" else t."c229" end,
                "c230" = case when w.taken is null or (w.taken::boolean[])[230] then w."n230" else t."c230" end,
                "c231" = case when w.taken is null or (w.taken::boolean[])[231] then w."n231" else t."c231" end,
                "c232" = case when w.taken is null or (w.taken::boolean[])[232] then w."n232" else t."c232" end,
                "c233" = case when w.taken is null or (w.taken::boolean[])[233] then w."n233" else t."c233" end,
                "c234" = case when w.taken is null or (w.taken::boolean[])[234] then w."n234" else t."c234" end,
                "c235" = case when w.taken is null or (w.taken::boolean[])[235] then w."n235" else t."c235" end,
                "c236" = case when w.taken is null or (w.taken::boolean[])[236] then w."n236" else t."c236" end,
                "c237" = case when w.taken is null or (w.taken::boolean[])[237] then w."n237" else t."c237" end,
                "c238" = case when w.taken is null or (w.taken::boolean[])[238] then w."n238" else t."c238" end,
                "c239" = case when w.taken is null or (w.taken::boolean[])[239] then w."n239" else t."c239" end,
                "c240" = case when w.taken is null or (w.taken::boolean[])[240] then w."n240" else t."c240" end,
                "c241" = case when w.taken is null or (w.taken::boolean[])[241] then w."n241" else t."c241" end,
                "c242" = case when w.taken is null or (w.taken::boolean[])[242] then w."n242" else t."c242" end,
                "c243" = case when w.taken is null or (w.taken::boolean[])[243] then w."n243" else t."c243" end,
                "c244" = case when w.taken is null or (w.taken::boolean[])[244] then w."n244" else t."c244" end,
                "c245" = case when w.taken is null or (w.taken::boolean[])[245] then w."n245" else t."c245" end,
                "c246" = case when w.taken is null or (w.taken::boolean[])[246] then w."n246" else t."c246" end
            from unnest($2, $3::"msrepl"."msmerge_row_00112233445566778899aabbccddeeff"[], $4) as w(guid, "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9", "n10", "n11", "n12", "n13", "n14", "n15", "n16", "n17", "n18", "n19", "n20", "n21", "n22", "n23", "n24", "n25", "n26", "n27", "n28", "n29", "n30", "n31", "n32", "n33", "n34", "n35", "n36", "n37", "n38", "n39", "n40", "n41", "n42", "n43", "n44", "n45", "n46", "n47", "n48", "n49", "n50", "n51", "n52", "n53", "n54", "n55", "n56", "n57", "n58", "n59", "n60", "n61", "n62", "n63", "n64", "n65", "n66", "n67", "n68", "n69", "n70", "n71", "n72", "n73", "n74", "n75", "n76", "n77", "n78", "n79", "n80", "n81", "n82", "n83", "n84", "n85", "n86", "n87", "n88", "n89", "n90", "n91", "n92", "n93", "n94", "n95", "n96", "n97", "n98", "n99", "n100", "n101", "n102", "n103", "n104", "n105", "n106", "n107", "n108", "n109", "n110", "n111", "n112", "n113", "n114", "n115", "n116", "n117", "n118", "n119", "n120", "n121", "n122", "n123", "n124", "n125", "n126", "n127", "n128", "n129", "n130", "n131", "n132", "n133", "n134", "n135", "n136", "n137", "n138", "n139", "n140", "n141", "n142", "n143", "n144", "n145", "n146", "n147", "n148", "n149", "n150", "n151", "n152", "n153", "n154", "n155", "n156", "n157", "n158", "n159", "n160", "n161", "n162", "n163", "n164", "n165", "n166", "n167", "n168", "n169", "n170", "n171", "n172", "n173", "n174", "n175", "n176", "n177", "n178", "n179", "n180", "n181", "n182", "n183", "n184", "n185", "n186", "n187", "n188", "n189", "n190", "n191", "n192", "n193", "n194", "n195", "n196", "n197", "n198", "n199", "n200", "n201", "n202", "n203", "n204", "n205", "n206", "n207", "n208", "n209", "n210", "n211", "n212", "n213", "n214", "n215", "n216", "n217", "n218", "n219", "n220", "n221", "n222", "n223", "n224", "n225", "n226", "n227", "n228", "n229", "n230", "n231", "n232", "n233", "n234", "n235", "n236", "n237", "n238", "n239", "n240", "n241", "n242", "n243", "n244", "n245", "n246", taken)
            where t."rowguid" operator(pg_catalog.=) w.guid;
            get diagnostics count = row_count;
        exception
            when unique_violation or exclusion_violation then
                if not is_whole then
                    raise;
                end if;
                is_replaced := true;
        end;
    elsif not is_whole then
        raise exception 'a row of % has another identity value, and columns that do not travel', 't'
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    if is_replaced then
        with removed as (
            delete from "public"."t" as t where t."rowguid" operator(pg_catalog.=) any ($2) returning t.*
        ), complete as materialized (select count(*) as count from removed)  -- before the first is inserted
        insert into "public"."t" ("rowguid", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "c11", "c12", "c13", "c14", "c15", "c16", "c17", "c18", "c19", "c20", "c21", "c22", "c23", "c24", "c25", "c26", "c27", "c28", "c29", "c30", "c31", "c32", "c33", "c34", "c35", "c36", "c37", "c38", "c39", "c40", "c41", "c42", "c43", "c44", "c45", "c46", "c47", "c48", "c49", "c50", "c51", "c52", "c53", "c54", "c55", "c56", "c57", "c58", "c59", "c60", "c61", "c62", "c63", "c64", "c65", "c66", "c67", "c68", "c69", "c70", "c71", "c72", "c73", "c74", "c75", "c76", "c77", "c78", "c79", "c80", "c81", "c82", "c83", "c84", "c85", "c86", "c87", "c88", "c89", "c90", "c91", "c92", "c93", "c94", "c95", "c96", "c97", "c98", "c99", "c100", "c101", "c102", "c103", "c104", "c105", "c106", "c107", "c108", "c109", "c110", "c111", "c112", "c113", "c114", "c115", "c116", "c117", "c118", "c119", "c120", "c121", "c122", "c123", "c124", "c125", "c126", "c127", "c128", "c129", "c130", "c131", "c132", "c133", "c134", "c135", "c136", "c137", "c138", "c139", "c140", "c141", "c142", "c143", "c144", "c145", "c146", "c147", "c148", "c149", "c150", "c151", "c152", "c153", "c154", "c155", "c156", "c157", "c158", "c159", "c160", "c161", "c162", "c163", "c164", "c165", "c166", "c167", "c168", "c169", "c170", "c171", "c172", "c173", "c174", "c175", "c176", "c177", "c178", "c179", "c180", "c181", "c182", "c183", "c184", "c185", "c186", "c187", "c188", "c189", "c190", "c191", "c192", "c193", "c194", "c195", "c196", "c197", "c198", "c199", "c200", "c201", "c202", "c203", "c204", "c205", "c206", "c207", "c208", "c209", "c210", "c211", "c212", "c213", "c214", "c215", "c216", "c217", "c218", "c219", "c220", "c221", "c222", "c223", "c224", "c225", "c226", "c227", "c228", "c229", "c230", "c231", "c232", "c233", "c234", "c235", "c236", "c237", "c238", "c239", "c240", "c241", "c242", "c243", "c244", "c245", "c246") overriding system value
        select t."rowguid", case when w.taken is null or (w.taken::boolean[])[1] then w."n1" else t."c1" end,
                   case when w.taken is null or (w.taken::boolean[])[2] then w."n2" else t."c2" end,
                   case when w.taken is null or (w.taken::boolean[])[3] then w."n3" else t."c3" end,
                   case when w.taken is null or (w.taken::boolean[])[4] then w."n4" else t."c4" end,
                   case when w.taken is null or (w.taken::boolean[])[5] then w."n5" else t."c5" end,
                   case when w.taken is null or (w.taken::boolean[])[6] then w."n6" else t."c6" end,
                   case when w.taken is null or (w.taken::boolean[])[7] then w."n7" else t."c7" end,
                   case when w.taken is null or (w.taken::boolean[])[8] then w."n8" else t."c8" end,
                   case when w.taken is null or (w.taken::boolean[])[9] then w."n9" else t."c9" end,
                   case when w.taken is null or (w.taken::boolean[])[10] then w."n10" else t."c10" end,
                   case when w.taken is null or (w.taken::boolean[])[11] then w."n11" else t."c11" end,
                   case when w.taken is null or (w.taken::boolean[])[12] then w."n12" else t."c12" end,
                   case when w.taken is null or (w.taken::boolean[])[13] then w."n13" else t."c13" end,
                   case when w.taken is null or (w.taken::boolean[])[14] then w."n14" else t."c14" end,
                   case when w.taken is null or (w.taken::boolean[])[15] then w."n15" else t."c15" end,
                   case when w.taken is null or (w.taken::boolean[])[16] then w."n16" else t."c16" end,
                   case when w.taken is null or (w.taken::boolean[])[17] then w."n17" else t."c17" end,
                   case when w.taken is null or (w.taken::boolean[])[18] then w."n18" else t."c18" end,
                   case when w.taken is null or (w.taken::boolean[])[19] then w."n19" else t."c19" end,
                   case when w.taken is null or (w.taken::boolean[])[20] then w."n20" else t."c20" end,
                   case when w.taken is null or (w.taken::boolean[])[21] then w."n21" else t."c21" end,
                   case when w.taken is null or (w.taken::boolean[])[22] then w."n22" else t."c22" end,
                   case when w.taken is null or (w.taken::boolean[])[23] then w."n23" else t."c23" end,
                   case when w.taken is null or (w.taken::boolean[])[24] then w."n24" else t."c24" end,
                   case when w.taken is null or (w.taken::boolean[])[25] then w."n25" else t."c25" end,
                   case when w.taken is null or (w.taken::boolean[])[26] then w."n26" else t."c26" end,
                   case when w.taken is null or (w.taken::boolean[])[27] then w."n27" else t."c27" end,
                   case when w.taken is null or (w.taken::boolean[])[28] then w."n28" else t."c28" end,
                   case when w.taken is null or (w.taken::boolean[])[29] then w."n29" else t."c29" end,
                   case when w.taken is null or (w.taken::boolean[])[30] then w."n30" else t."c30" end,
                   case when w.taken is null or (w.taken::boolean[])[31] then w."n31" else t."c31" end,
                   case when w.taken is null or (w.taken::boolean[])[32] then w."n32" else t."c32" end,
                   case when w.taken is null or (w.taken::boolean[])[33] then w."n33" else t."c33" end,
                   case when w.taken is null or (w.taken::boolean[])[34] then w."n34" else t."c34" end,
                   case when w.taken is null or (w.taken::boolean[])[35] then w."n35" else t."c35" end,
                   case when w.taken is null or (w.taken::boolean[])[36] then w."n36" else t."c36" end,
                   case when w.taken is null or (w.taken::boolean[])[37] then w."n37" else t."c37" end,
                   case when w.taken is null or (w.taken::boolean[])[38] then w."n38" else t."c38" end,
                   case when w.taken is null or (w.taken::boolean[])[39] then w."n39" else t."c39" end,
                   case when w.taken is null or (w.taken::boolean[])[40] then w."n40" else t."c40" end,
                   case when w.taken is null or (w.taken::boolean[])[41] then w."n41" else t."c41" end,
                   case when w.taken is null or (w.taken::boolean[])[42] then w."n42" else t."c42" end,
                   case when w.taken is null or (w.taken::boolean[])[43] then w."n43" else t."c43" end,
                   case when w.taken is null or (w.taken::boolean[])[44] then w."n44" else t."c44" end,
                   case when w.taken is null or (w.taken::boolean[])[45] then w."n45" else t."c45" end,
                   case when w.taken is null or (w.taken::boolean[])[46] then w."n46" else t."c46" end,
                   case when w.taken is null or (w.taken::boolean[])[47] then w."n47" else t."c47" end,
                   case when w.taken is null or (w.taken::boolean[])[48] then w."n48" else t."c48" end,
                   case when w.taken is null or (w.taken::boolean[])[49] then w."n49" else t."c49" end,
                   case when w.taken is null or (w.taken::boolean[])[50] then w."n50" else t."c50" end,
                   case when w.taken is null or (w.taken::boolean[])[51] then w."n51" else t."c51" end,
                   case when w.taken is null or (w.taken::boolean[])[52] then w."n52" else t."c52" end,
                   case when w.taken is null or (w.taken::boolean[])[53] then w."n53" else t."c53" end,
                   case when w.taken is null or (w.taken::boolean[])[54] then w."n54" else t."c54" end,
                   case when w.taken is null or (w.taken::boolean[])[55] then w."n55" else t."c55" end,
                   case when w.taken is null or (w.taken::boolean[])[56] then w."n56" else t."c56" end,
                   case when w.taken is null or (w.taken::boolean[])[57] then w."n57" else t."c57" end,
                   case when w.taken is null or (w.taken::boolean[])[58] then w."n58" else t."c58" end,
                   case when w.taken is null or (w.taken::boolean[])[59] then w."n59" else t."c59" end,
                   case when w.taken is null or (w.taken::boolean[])[60] then w."n60" else t."c60" end,
                   case when w.taken is null or (w.taken::boolean[])[61] then w."n61" else t."c61" end,
                   case when w.taken is null or (w.taken::boolean[])[62] then w."n62" else t."c62" end,
                   case when w.taken is null or (w.taken::boolean[])[63] then w."n63" else t."c63" end,
                   case when w.taken is null or (w.taken::boolean[])[64] then w."n64" else t."c64" end,
                   case when w.taken is null or (w.taken::boolean[])[65] then w."n65" else t."c65" end,
                   case when w.taken is null or (w.taken::boolean[])[66] then w."n66" else t."c66" end,
                   case when w.taken is null or (w.taken::boolean[])[67] then w."n67" else t."c67" end,
                   case when w.taken is null or (w.taken::boolean[])[68] then w."n68" else t."c68" end,
                   case when w.taken is null or (w.taken::boolean[])[69] then w."n69" else t."c69" end,
                   case when w.taken is null or (w.taken::boolean[])[70] then w."n70" else t."c70" end,
                   case when w.taken is null or (w.taken::boolean[])[71] then w."n71" else t."c71" end,
                   case when w.taken is null or (w.taken::boolean[])[72] then w."n72" else t."c72" end,
                   case when w.taken is null or (w.taken::boolean[])[73] then w."n73" else t."c73" end,
                   case when w.taken is null or (w.taken::boolean[])[74] then w."n74" else t."c74" end,
                   case when w.taken is null or (w.taken::boolean[])[75] then w."n75" else t."c75" end,
                   case when w.taken is null or (w.taken::boolean[])[76] then w."n76" else t."c76" end,
                   case when w.taken is null or (w.taken::boolean[])[77] then w."n77" else t."c77" end,
                   case when w.taken is null or (w.taken::boolean[])[78] then w."n78" else t."c78" end,
                   case when w.taken is null or (w.taken::boolean[])[79] then w."n79" else t."c79" end,
                   case when w.taken is null or (w.taken::boolean[])[80] then w."n80" else t."c80" end,
                   case when w.taken is null or (w.taken::boolean[])[81] then w."n81" else t."c81" end,
                   case when w.taken is null or (w.taken::boolean[])[82] then w."n82" else t."c82" end,
                   case when w.taken is null or (w.taken::boolean[])[83] then w."n83" else t."c83" end,
                   case when w.taken is null or (w.taken::boolean[])[84] then w."n84" else t."c84" end,
                   case when w.taken is null or (w.taken::boolean[])[85] then w."n85" else t."c85" end,
                   case when w.taken is null or (w.taken::boolean[])[86] then w."n86" else t."c86" end,
                   case when w.taken is null or (w.taken::boolean[])[87] then w."n87" else t."c87" end,
                   case when w.taken is null or (w.taken::boolean[])[88] then w."n88" else t."c88" end,
                   case when w.taken is null or (w.taken::boolean[])[89] then w."n89" else t."c89" end,
                   case when w.taken is null or (w.taken::boolean[])[90] then w."n90" else t."c90" end,
                   case when w.taken is null or (w.taken::boolean[])[91] then w."n91" else t."c91" end,
                   case when w.taken is null or (w.taken::boolean[])[92] then w."n92" else t."c92" end,
                   case when w.taken is null or (w.taken::boolean[])[93] then w."n93" else t."c93" end,
                   case when w.taken is null or (w.taken::boolean[])[94] then w."n94" else t."c94" end,
                   case when w.taken is null or (w.taken::boolean[])[95] then w."n95" else t."c95" end,
                   case when w.taken is null or (w.taken::boolean[])[96] then w."n96" else t."c96" end,
                   case when w.taken is null or (w.taken::boolean[])[97] then w."n97" else t."c97" end,
                   case when w.taken is null or (w.taken::boolean[])[98] then w."n98" else t."c98" end,
                   case when w.taken is null or (w.taken::boolean[])[99] then w."n99" else t."c99" end,
                   case when w.taken is null or (w.taken::boolean[])[100] then w."n100" else t."c100" end,
                   case when w.taken is null or (w.taken::boolean[])[101] then w."n101" else t."c101" end,
                   case when w.taken is null or (w.taken::boolean[])[102] then w."n102" else t."c102" end,
                   case when w.taken is null or (w.taken::boolean[])[103] then w."n103" else t."c103" end,
                   case when w.taken is null or (w.taken::boolean[])[104] then w."n104" else t."c104" end,
                   case when w.taken is null or (w.taken::boolean[])[105] then w."n105" else t."c105" end,
                   case when w.taken is null or (w.taken::boolean[])[106] then w."n106" else t."c106" end,
                   case when w.taken is null or (w.taken::boolean[])[107] then w."n107" else t."c107" end,
                   case when w.taken is null or (w.taken::boolean[])[108] then w."n108" else t."c108" end,
                   case when w.taken is null or (w.taken::boolean[])[109] then w."n109" else t."c109" end,
                   case when w.taken is null or (w.taken::boolean[])[110] then w."n110" else t."c110" end,
                   case when w.taken is null or (w.taken::boolean[])[111] then w."n111" else t."c111" end,
                   case when w.taken is null or (w.taken::boolean[])[112] then w."n112" else t."c112" end,
                   case when w.taken is null or (w.taken::boolean[])[113] then w."n113" else t."c113" end,
                   case when w.taken is null or (w.taken::boolean[])[114] then w."n114" else t."c114" end,
                   case when w.taken is null or (w.taken::boolean[])[115] then w."n115" else t."c115" end,
                   case when w.taken is null or (w.taken::boolean[])[116] then w."n116" else t."c116" end,
                   case when w.taken is null or (w.taken::boolean[])[117] then w."n117" else t."c117" end,
                   case when w.taken is null or (w.taken::boolean[])[118] then w."n118" else t."c118" end,
                   case when w.taken is null or (w.taken::boolean[])[119] then w."n119" else t."c119" end,
                   case when w.taken is null or (w.taken::boolean[])[120] then w."n120" else t."c120" end,
                   case when w.taken is null or (w.taken::boolean[])[121] then w."n121" else t."c121" end,
                   case when w.taken is null or (w.taken::boolean[])[122] then w."n122" else t."c122" end,
                   case when w.taken is null or (w.taken::boolean[])[123] then w."n123" else t."c123" end,
                   case when w.taken is null or (w.taken::boolean[])[124] then w."n124" else t."c124" end,
                   case when w.taken is null or (w.taken::boolean[])[125] then w."n125" else t."c125" end,
                   case when w.taken is null or (w.taken::boolean[])[126] then w."n126" else t."c126" end,
                   case when w.taken is null or (w.taken::boolean[])[127] then w."n127" else t."c127" end,
                   case when w.taken is null or (w.taken::boolean[])[128] then w."n128" else t."c128" end,
                   case when w.taken is null or (w.taken::boolean[])[129] then w."n129" else t."c129" end,
                   case when w.taken is null or (w.taken::boolean[])[130] then w."n130" else t."c130" end,
                   case when w.taken is null or (w.taken::boolean[])[131] then w."n131" else t."c131" end,
                   case when w.taken is null or (w.taken::boolean[])[132] then w."n132" else t."c132" end,
                   case when w.taken is null or (w.taken::boolean[])[133] then w."n133" else t."c133" end,
                   case when w.taken is null or (w.taken::boolean[])[134] then w."n134" else t."c134" end,
                   case when w.taken is null or (w.taken::boolean[])[135] then w."n135" else t."c135" end,
                   case when w.taken is null or (w.taken::boolean[])[136] then w."n136" else t."c136" end,
                   case when w.taken is null or (w.taken::boolean[])[137] then w."n137" else t."c137" end,
                   case when w.taken is null or (w.taken::boolean[])[138] then w."n138" else t."c138" end,
                   case when w.taken is null or (w.taken::boolean[])[139] then w."n139" else t."c139" end,
                   case when w.taken is null or (w.taken::boolean[])[140] then w."n140" else t."c140" end,
                   case when w.taken is null or (w.taken::boolean[])[141] then w."n141" else t."c141" end,
                   case when w.taken is null or (w.taken::boolean[])[142] then w."n142" else t."c142" end,
                   case when w.taken is null or (w.taken::boolean[])[143] then w."n143" else t."c143" end,
                   case when w.taken is null or (w.taken::boolean[])[144] then w."n144" else t."c144" end,
                   case when w.taken is null or (w.taken::boolean[])[145] then w."n145" else t."c145" end,
                   case when w.taken is null or (w.taken::boolean[])[146] then w."n146" else t."c146" end,
                   case when w.taken is null or (w.taken::boolean[])[147] then w."n147" else t."c147" end,
                   case when w.taken is null or (w.taken::boolean[])[148] then w."n148" else t."c148" end,
                   case when w.taken is null or (w.taken::boolean[])[149] then w."n149" else t."c149" end,
                   case when w.taken is null or (w.taken::boolean[])[150] then w."n150" else t."c150" end,
                   case when w.taken is null or (w.taken::boolean[])[151] then w."n151" else t."c151" end,
                   case when w.taken is null or (w.taken::boolean[])[152] then w."n152" else t."c152" end,
                   case when w.taken is null or (w.taken::boolean[])[153] then w."n153" else t."c153" end,
                   case when w.taken is null or (w.taken::boolean[])[154] then w."n154" else t."c154" end,
                   case when w.taken is null or (w.taken::boolean[])[155] then w."n155" else t."c155" end,
                   case when w.taken is null or (w.taken::boolean[])[156] then w."n156" else t."c156" end,
                   case when w.taken is null or (w.taken::boolean[])[157] then w."n157" else t."c157" end,
                   case when w.taken is null or (w.taken::boolean[])[158] then w."n158" else t."c158" end,
                   case when w.taken is null or (w.taken::boolean[])[159] then w."n159" else t."c159" end,
                   case when w.taken is null or (w.taken::boolean[])[160] then w."n160" else t."c160" end,
                   case when w.taken is null or (w.taken::boolean[])[161] then w."n161" else t."c161" end,
                   case when w.taken is null or (w.taken::boolean[])[162] then w."n162" else t."c162" end,
                   case when w.taken is null or (w.taken::boolean[])[163] then w."n163" else t."c163" end,
                   case when w.taken is null or (w.taken::boolean[])[164] then w."n164" else t."c164" end,
                   case when w.taken is null or (w.taken::boolean[])[165] then w."n165" else t."c165" end,
                   case when w.taken is null or (w.taken::boolean[])[166] then w."n166" else t."c166" end,
                   case when w.taken is null or (w.taken::boolean[])[167] then w."n167" else t."c167" end,
                   case when w.taken is null or (w.taken::boolean[])[168] then w."n168" else t."c168" end,
                   case when w.taken is null or (w.taken::boolean[])[169] then w."n169" else t."c169" end,
                   case when w.taken is null or (w.taken::boolean[])[170] then w."n170" else t."c170" end,
                   case when w.taken is null or (w.taken::boolean[])[171] then w."n171" else t."c171" end,
                   case when w.taken is null or (w.taken::boolean[])[172] then w."n172" else t."c172" end,
                   case when w.taken is null or (w.taken::boolean[])[173] then w."n173" else t."c173" end,
                   case when w.taken is null or (w.taken::boolean[])[174] then w."n174" else t."c174" end,
                   case when w.taken is null or (w.taken::boolean[])[175] then w."n175" else t."c175" end,
                   case when w.taken is null or (w.taken::boolean[])[176] then w."n176" else t."c176" end,
                   case when w.taken is null or (w.taken::boolean[])[177] then w."n177" else t."c177" end,
                   case when w.taken is null or (w.taken::boolean[])[178] then w."n178" else t."c178" end,
                   case when w.taken is null or (w.taken::boolean[])[179] then w."n179" else t."c179" end,
                   case when w.taken is null or (w.taken::boolean[])[180] then w."n180" else t."c180" end,
                   case when w.taken is null or (w.taken::boolean[])[181] then w."n181" else t."c181" end,
                   case when w.taken is null or (w.taken::boolean[])[182] then w."n182" else t."c182" end,
                   case when w.taken is null or (w.taken::boolean[])[183] then w."n183" else t."c183" end,
                   case when w.taken is null or (w.taken::boolean[])[184] then w."n184" else t."c184" end,
                   case when w.taken is null or (w.taken::boolean[])[185] then w."n185" else t."c185" end,
                   case when w.taken is null or (w.taken::boolean[])[186] then w."n186" else t."c186" end,
                   case when w.taken is null or (w.taken::boolean[])[187] then w."n187" else t."c187" end,
                   case when w.taken is null or (w.taken::boolean[])[188] then w."n188" else t."c188" end,
                   case when w.taken is null or (w.taken::boolean[])[189] then w."n189" else t."c189" end,
                   case when w.taken is null or (w.taken::boolean[])[190] then w."n190" else t."c190" end,
                   case when w.taken is null or (w.taken::boolean[])[191] then w."n191" else t."c191" end,
                   case when w.taken is null or (w.taken::boolean[])[192] then w."n192" else t."c192" end,
                   case when w.taken is null or (w.taken::boolean[])[193] then w."n193" else t."c193" end,
                   case when w.taken is null or (w.taken::boolean[])[194] then w."n194" else t."c194" end,
                   case when w.taken is null or (w.taken::boolean[])[195] then w."n195" else t."c195" end,
                   case when w.taken is null or (w.taken::boolean[])[196] then w."n196" else t."c196" end,
                   case when w.taken is null or (w.taken::boolean[])[197] then w."n197" else t."c197" end,
                   case when w.taken is null or (w.taken::boolean[])[198] then w."n198" else t."c198" end,
                   case when w.taken is null or (w.taken::boolean[])[199] then w."n199" else t."c199" end,
                   case when w.taken is null or (w.taken::boolean[])[200] then w."n200" else t."c200" end,
                   case when w.taken is null or (w.taken::boolean[])[201] then w."n201" else t."c201" end,
                   case when w.taken is null or (w.taken::boolean[])[202] then w."n202" else t."c202" end,
                   case when w.taken is null or (w.taken::boolean[])[203] then w."n203" else t."c203" end,
                   case when w.taken is null or (w.taken::boolean[])[204] then w."n204" else t."c204" end,
                   case when w.taken is null or (w.taken::boolean[])[205] then w."n205" else t."c205" end,
                   case when w.taken is null or (w.taken::boolean[])[206] then w."n206" else t."c206" end,
                   case when w.taken is null or (w.taken::boolean[])[207] then w."n207" else t."c207" end,
                   case when w.taken is null or (w.taken::boolean[])[208] then w."n208" else t."c208" end,
                   case when w.taken is null or (w.taken::boolean[])[209] then w."n209" else t."c209" end,
                   case when w.taken is null or (w.taken::boolean[])[210] then w."n210" else t."c210" end,
                   case when w.taken is null or (w.taken::boolean[])[211] then w."n211" else t."c211" end,
                   case when w.taken is null or (w.taken::boolean[])[212] then w."n212" else t."c212" end,
                   case when w.taken is null or (w.taken::boolean[])[213] then w."n213" else t."c213" end,
                   case when w.taken is null or (w.taken::boolean[])[214] then w."n214" else t."c214" end,
                   case when w.taken is null or (w.taken::boolean[])[215] then w."n215" else t."c215" end,
                   case when w.taken is null or (w.taken::boolean[])[216] then w."n216" else t."c216" end,
                   case when w.taken is null or (w.taken::boolean[])[217] then w."n217" else t."c217" end,
                   case when w.taken is null or (w.taken::boolean[])[218] then w."n218" else t."c218" end,
                   case when w.taken is null or (w.taken::boolean[])[219] then w."n219" else t."c219" end,
                   case when w.taken is null or (w.taken::boolean[])[220] then w."n220" else t."c220" end,
                   case when w.taken is null or (w.taken::boolean[])[221] then w."n221" else t."c221" end,
                   case when w.taken is null or (w.taken::boolean[])[222] then w."n222" else t."c222" end,
                   case when w.taken is null or (w.taken::boolean[])[223] then w."n223" else t."c223" end,
                   case when w.taken is null or (w.taken::boolean[])[224] then w."n224" else t."c224" end,
                   case when w.taken is null or (w.taken::boolean[])[225] then w."n225" else t."c225" end,
                   case when w.taken is null or (w.taken::boolean[])[226] then w."n226" else t."c226" end,
                   case when w.taken is null or (w.taken::boolean[])[227] then w."n227" else t."c227" end,
                   case when w.taken is null or (w.taken::boolean[])[228] then w."n228" else t."c228" end,
                   case when w.taken is null or (w.taken::boolean[])[229] then w."n229" else t."c229" end,
                   case when w.taken is null or (w.taken::boolean[])[230] then w."n230" else t."c230" end,
                   case when w.taken is null or (w.taken::boolean[])[231] then w."n231" else t."c231" end,
                   case when w.taken is null or (w.taken::boolean[])[232] then w."n232" else t."c232" end,
                   case when w.taken is null or (w.taken::boolean[])[233] then w."n233" else t."c233" end,
                   case when w.taken is null or (w.taken::boolean[])[234] then w."n234" else t."c234" end,
                   case when w.taken is null or (w.taken::boolean[])[235] then w."n235" else t."c235" end,
                   case when w.taken is null or (w.taken::boolean[])[236] then w."n236" else t."c236" end,
                   case when w.taken is null or (w.taken::boolean[])[237] then w."n237" else t."c237" end,
                   case when w.taken is null or (w.taken::boolean[])[238] then w."n238" else t."c238" end,
                   case when w.taken is null or (w.taken::boolean[])[239] then w."n239" else t."c239" end,
                   case when w.taken is null or (w.taken::boolean[])[240] then w."n240" else t."c240" end,
                   case when w.taken is null or (w.taken::boolean[])[241] then w."n241" else t."c241" end,
                   case when w.taken is null or (w.taken::boolean[])[242] then w."n242" else t."c242" end,
                   case when w.taken is null or (w.taken::boolean[])[243] then w."n243" else t."c243" end,
                   case when w.taken is null or (w.taken::boolean[])[244] then w."n244" else t."c244" end,
                   case when w.taken is null or (w.taken::boolean[])[245] then w."n245" else t."c245" end,
                   case when w.taken is null or (w.taken::boolean[])[246] then w."n246" else t."c246" end
        from complete as c cross join removed as t
        join unnest($2, $3::"msrepl"."msmerge_row_00112233445566778899aabbccddeeff"[], $4) as w(guid, "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9", "n10", "n11", "n12", "n13", "n14", "n15", "n16", "n17", "n18", "n19", "n20", "n21", "n22", "n23", "n24", "n25", "n26", "n27", "n28", "n29", "n30", "n31", "n32", "n33", "n34", "n35", "n36", "n37", "n38", "n39", "n40", "n41", "n42", "n43", "n44", "n45", "n46", "n47", "n48", "n49", "n50", "n51", "n52", "n53", "n54", "n55", "n56", "n57", "n58", "n59", "n60", "n61", "n62", "n63", "n64", "n65", "n66", "n67", "n68", "n69", "n70", "n71", "n72", "n73", "n74", "n75", "n76", "n77", "n78", "n79", "n80", "n81", "n82", "n83", "n84", "n85", "n86", "n87", "n88", "n89", "n90", "n91", "n92", "n93", "n94", "n95", "n96", "n97", "n98", "n99", "n100", "n101", "n102", "n103", "n104", "n105", "n106", "n107", "n108", "n109", "n110", "n111", "n112", "n113", "n114", "n115", "n116", "n117", "n118", "n119", "n120", "n121", "n122", "n123", "n124", "n125", "n126", "n127", "n128", "n129", "n130", "n131", "n132", "n133", "n134", "n135", "n136", "n137", "n138", "n139", "n140", "n141", "n142", "n143", "n144", "n145", "n146", "n147", "n148", "n149", "n150", "n151", "n152", "n153", "n154", "n155", "n156", "n157", "n158", "n159", "n160", "n161", "n162", "n163", "n164", "n165", "n166", "n167", "n168", "n169", "n170", "n171", "n172", "n173", "n174", "n175", "n176", "n177", "n178", "n179", "n180", "n181", "n182", "n183", "n184", "n185", "n186", "n187", "n188", "n189", "n190", "n191", "n192", "n193", "n194", "n195", "n196", "n197", "n198", "n199", "n200", "n201", "n202", "n203", "n204", "n205", "n206", "n207", "n208", "n209", "n210", "n211", "n212", "n213", "n214", "n215", "n216", "n217", "n218", "n219", "n220", "n221", "n222", "n223", "n224", "n225", "n226", "n227", "n228", "n229", "n230", "n231", "n232", "n233", "n234", "n235", "n236", "n237", "n238", "n239", "n240", "n241", "n242", "n243", "n244", "n245", "n246", taken)
            on t."rowguid" operator(pg_catalog.=) w.guid
        where c.count > 0;
        get diagnostics count = row_count;
    end if;
    written := written + count;
    insert into "public"."t" ("rowguid", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "c11", "c12", "c13", "c14", "c15", "c16", "c17", "c18", "c19", "c20", "c21", "c22", "c23", "c24", "c25", "c26", "c27", "c28", "c29", "c30", "c31", "c32", "c33", "c34", "c35", "c36", "c37", "c38", "c39", "c40", "c41", "c42", "c43", "c44", "c45", "c46", "c47", "c48", "c49", "c50", "c51", "c52", "c53", "c54", "c55", "c56", "c57", "c58", "c59", "c60", "c61", "c62", "c63", "c64", "c65", "c66", "c67", "c68", "c69", "c70", "c71", "c72", "c73", "c74", "c75", "c76", "c77", "c78", "c79", "c80", "c81", "c82", "c83", "c84", "c85", "c86", "c87", "c88", "c89", "c90", "c91", "c92", "c93", "c94", "c95", "c96", "c97", "c98", "c99", "c100", "c101", "c102", "c103", "c104", "c105", "c106", "c107", "c108", "c109", "c110", "c111", "c112", "c113", "c114", "c115", "c116", "c117", "c118", "c119", "c120", "c121", "c122", "c123", "c124", "c125", "c126", "c127", "c128", "c129", "c130", "c131", "c132", "c133", "c134", "c135", "c136", "c137", "c138", "c139", "c140", "c141", "c142", "c143", "c144", "c145", "c146", "c147", "c148", "c149", "c150", "c151", "c152", "c153", "c154", "c155", "c156", "c157", "c158", "c159", "c160", "c161", "c162", "c163", "c164", "c165", "c166", "c167", "c168", "c169", "c170", "c171", "c172", "c173", "c174", "c175", "c176", "c177", "c178", "c179", "c180", "c181", "c182", "c183", "c184", "c185", "c186", "c187", "c188", "c189", "c190", "c191", "c192", "c193", "c194", "c195", "c196", "c197", "c198", "c199", "c200", "c201", "c202", "c203", "c204", "c205", "c206", "c207", "c208", "c209", "c210", "c211", "c212", "c213", "c214", "c215", "c216", "c217", "c218", "c219", "c220", "c221", "c222", "c223", "c224", "c225", "c226", "c227", "c228", "c229", "c230", "c231", "c232", "c233", "c234", "c235", "c236", "c237", "c238", "c239", "c240", "c241", "c242", "c243", "c244", "c245", "c246") overriding system value
    select w.* from unnest($5, $6::"msrepl"."msmerge_row_00112233445566778899aabbccddeeff"[]) as w;
    get diagnostics count = row_count;
    written := written + count;
    if written <> cardinality($1) + cardinality($2) + cardinality($5) then
        raise exception '% rows of % were to be written, and % were', cardinality($1) + cardinality($2) + cardinality($5),
            't', written
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'No trigger that is enabled ALWAYS or REPLICA may keep an agent from writing a row.';
    end if;
end
$msrepl$;
alter function "msrepl"."msmerge_write_00112233445566778899aabbccddeeff"(uuid[], uuid[], text[], text[], uuid[], text[]) owner to "msrepl_table_c268110370c2_f059f10c4aed";
revoke all on function "msrepl"."msmerge_write_00112233445566778899aabbccddeeff"(uuid[], uuid[], text[], text[], uuid[], text[]) from public;
grant execute on function "msrepl"."msmerge_write_00112233445566778899aabbccddeeff"(uuid[], uuid[], text[], text[], uuid[], text[]) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."msmerge_write_00112233445566778899aabbccddeeff"(uuid[], uuid[], text[], text[], uuid[], text[]) is 'Writes rows of t for merge replication';

-- msmerge_log_<artid>: keeps a row that has lost a conflict, or could not be applied.
-- called by: msmerge_take_<artid>, msrepl.merge_record_failure
-- tables:    msmerge_conflict_<publication>_<article>
-- holes:     function, runs_as, conflict_table, rowguid, columns, row_type, excluded, owner, caller, comment
create or replace function "msrepl"."msmerge_log_00112233445566778899aabbccddeeff"(conflict_id uuid, guid uuid, "row" text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
begin
-- fragment: makes sure that a function that runs code of a table's owner runs in the name of its own owner.
-- called by: rendered into functions of a table's role, first
-- tables:    none
-- holes:     role_text
--
-- That code runs as the function's owner too, who may take SECURITY DEFINER or search_path away from it.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_f059f10c4aed' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_f059f10c4aed', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;

    insert into "msrepl"."msmerge_conflict_merge_t" as c (msrepl_conflict_id, "rowguid", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10", "c11", "c12", "c13", "c14", "c15", "c16", "c17", "c18", "c19", "c20", "c21", "c22", "c23", "c24", "c25", "c26", "c27", "c28", "c29", "c30", "c31", "c32", "c33", "c34", "c35", "c36", "c37", "c38", "c39", "c40", "c41", "c42", "c43", "c44", "c45", "c46", "c47", "c48", "c49", "c50", "c51", "c52", "c53", "c54", "c55", "c56", "c57", "c58", "c59", "c60", "c61", "c62", "c63", "c64", "c65", "c66", "c67", "c68", "c69", "c70", "c71", "c72", "c73", "c74", "c75", "c76", "c77", "c78", "c79", "c80", "c81", "c82", "c83", "c84", "c85", "c86", "c87", "c88", "c89", "c90", "c91", "c92", "c93", "c94", "c95", "c96", "c97", "c98", "c99", "c100", "c101", "c102", "c103", "c104", "c105", "c106", "c107", "c108", "c109", "c110", "c111", "c112", "c113", "c114", "c115", "c116", "c117", "c118", "c119", "c120", "c121", "c122", "c123", "c124", "c125", "c126", "c127", "c128", "c129", "c130", "c131", "c132", "c133", "c134", "c135", "c136", "c137", "c138", "c139", "c140", "c141", "c142", "c143", "c144", "c145", "c146", "c147", "c148", "c149", "c150", "c151", "c152", "c153", "c154", "c155", "c156", "c157", "c158", "c159", "c160", "c161", "c162", "c163", "c164", "c165", "c166", "c167", "c168", "c169", "c170", "c171", "c172", "c173", "c174", "c175", "c176", "c177", "c178", "c179", "c180", "c181", "c182", "c183", "c184", "c185", "c186", "c187", "c188", "c189", "c190", "c191", "c192", "c193", "c194", "c195", "c196", "c197", "c198", "c199", "c200", "c201", "c202", "c203", "c204", "c205", "c206", "c207", "c208", "c209", "c210", "c211", "c212", "c213", "c214", "c215", "c216", "c217", "c218", "c219", "c220", "c221", "c222", "c223", "c224", "c225", "c226", "c227", "c228", "c229", "c230", "c231", "c232", "c233", "c234", "c235", "c236", "c237", "c238", "c239", "c240", "c241", "c242", "c243", "c244", "c245", "c246")
    select $1, $2, (r.v).* from (select $3::"msrepl"."msmerge_row_00112233445566778899aabbccddeeff" as v) as r
    on conflict (msrepl_conflict_id) do update set "c1" = excluded."c1", "c2" = excluded."c2", "c3" = excluded."c3", "c4" = excluded."c4", "c5" = excluded."c5", "c6" = excluded."c6", "c7" = excluded."c7", "c8" = excluded."c8", "c9" = excluded."c9", "c10" = excluded."c10", "c11" = excluded."c11", "c12" = excluded."c12", "c13" = excluded."c13", "c14" = excluded."c14", "c15" = excluded."c15", "c16" = excluded."c16", "c17" = excluded."c17", "c18" = excluded."c18", "c19" = excluded."c19", "c20" = excluded."c20", "c21" = excluded."c21", "c22" = excluded."c22", "c23" = excluded."c23", "c24" = excluded."c24", "c25" = excluded."c25", "c26" = excluded."c26", "c27" = excluded."c27", "c28" = excluded."c28", "c29" = excluded."c29", "c30" = excluded."c30", "c31" = excluded."c31", "c32" = excluded."c32", "c33" = excluded."c33", "c34" = excluded."c34", "c35" = excluded."c35", "c36" = excluded."c36", "c37" = excluded."c37", "c38" = excluded."c38", "c39" = excluded."c39", "c40" = excluded."c40", "c41" = excluded."c41", "c42" = excluded."c42", "c43" = excluded."c43", "c44" = excluded."c44", "c45" = excluded."c45", "c46" = excluded."c46", "c47" = excluded."c47", "c48" = excluded."c48", "c49" = excluded."c49", "c50" = excluded."c50", "c51" = excluded."c51", "c52" = excluded."c52", "c53" = excluded."c53", "c54" = excluded."c54", "c55" = excluded."c55", "c56" = excluded."c56", "c57" = excluded."c57", "c58" = excluded."c58", "c59" = excluded."c59", "c60" = excluded."c60", "c61" = excluded."c61", "c62" = excluded."c62", "c63" = excluded."c63", "c64" = excluded."c64", "c65" = excluded."c65", "c66" = excluded."c66", "c67" = excluded."c67", "c68" = excluded."c68", "c69" = excluded."c69", "c70" = excluded."c70", "c71" = excluded."c71", "c72" = excluded."c72", "c73" = excluded."c73", "c74" = excluded."c74", "c75" = excluded."c75", "c76" = excluded."c76", "c77" = excluded."c77", "c78" = excluded."c78", "c79" = excluded."c79", "c80" = excluded."c80", "c81" = excluded."c81", "c82" = excluded."c82", "c83" = excluded."c83", "c84" = excluded."c84", "c85" = excluded."c85", "c86" = excluded."c86", "c87" = excluded."c87", "c88" = excluded."c88", "c89" = excluded."c89", "c90" = excluded."c90", "c91" = excluded."c91", "c92" = excluded."c92", "c93" = excluded."c93", "c94" = excluded."c94", "c95" = excluded."c95", "c96" = excluded."c96", "c97" = excluded."c97", "c98" = excluded."c98", "c99" = excluded."c99", "c100" = excluded."c100", "c101" = excluded."c101", "c102" = excluded."c102", "c103" = excluded."c103", "c104" = excluded."c104", "c105" = excluded."c105", "c106" = excluded."c106", "c107" = excluded."c107", "c108" = excluded."c108", "c109" = excluded."c109", "c110" = excluded."c110", "c111" = excluded."c111", "c112" = excluded."c112", "c113" = excluded."c113", "c114" = excluded."c114", "c115" = excluded."c115", "c116" = excluded."c116", "c117" = excluded."c117", "c118" = excluded."c118", "c119" = excluded."c119", "c120" = excluded."c120", "c121" = excluded."c121", "c122" = excluded."c122", "c123" = excluded."c123", "c124" = excluded."c124", "c125" = excluded."c125", "c126" = excluded."c126", "c127" = excluded."c127", "c128" = excluded."c128", "c129" = excluded."c129", "c130" = excluded."c130", "c131" = excluded."c131", "c132" = excluded."c132", "c133" = excluded."c133", "c134" = excluded."c134", "c135" = excluded."c135", "c136" = excluded."c136", "c137" = excluded."c137", "c138" = excluded."c138", "c139" = excluded."c139", "c140" = excluded."c140", "c141" = excluded."c141", "c142" = excluded."c142", "c143" = excluded."c143", "c144" = excluded."c144", "c145" = excluded."c145", "c146" = excluded."c146", "c147" = excluded."c147", "c148" = excluded."c148", "c149" = excluded."c149", "c150" = excluded."c150", "c151" = excluded."c151", "c152" = excluded."c152", "c153" = excluded."c153", "c154" = excluded."c154", "c155" = excluded."c155", "c156" = excluded."c156", "c157" = excluded."c157", "c158" = excluded."c158", "c159" = excluded."c159", "c160" = excluded."c160", "c161" = excluded."c161", "c162" = excluded."c162", "c163" = excluded."c163", "c164" = excluded."c164", "c165" = excluded."c165", "c166" = excluded."c166", "c167" = excluded."c167", "c168" = excluded."c168", "c169" = excluded."c169", "c170" = excluded."c170", "c171" = excluded."c171", "c172" = excluded."c172", "c173" = excluded."c173", "c174" = excluded."c174", "c175" = excluded."c175", "c176" = excluded."c176", "c177" = excluded."c177", "c178" = excluded."c178", "c179" = excluded."c179", "c180" = excluded."c180", "c181" = excluded."c181", "c182" = excluded."c182", "c183" = excluded."c183", "c184" = excluded."c184", "c185" = excluded."c185", "c186" = excluded."c186", "c187" = excluded."c187", "c188" = excluded."c188", "c189" = excluded."c189", "c190" = excluded."c190", "c191" = excluded."c191", "c192" = excluded."c192", "c193" = excluded."c193", "c194" = excluded."c194", "c195" = excluded."c195", "c196" = excluded."c196", "c197" = excluded."c197", "c198" = excluded."c198", "c199" = excluded."c199", "c200" = excluded."c200", "c201" = excluded."c201", "c202" = excluded."c202", "c203" = excluded."c203", "c204" = excluded."c204", "c205" = excluded."c205", "c206" = excluded."c206", "c207" = excluded."c207", "c208" = excluded."c208", "c209" = excluded."c209", "c210" = excluded."c210", "c211" = excluded."c211", "c212" = excluded."c212", "c213" = excluded."c213", "c214" = excluded."c214", "c215" = excluded."c215", "c216" = excluded."c216", "c217" = excluded."c217", "c218" = excluded."c218", "c219" = excluded."c219", "c220" = excluded."c220", "c221" = excluded."c221", "c222" = excluded."c222", "c223" = excluded."c223", "c224" = excluded."c224", "c225" = excluded."c225", "c226" = excluded."c226", "c227" = excluded."c227", "c228" = excluded."c228", "c229" = excluded."c229", "c230" = excluded."c230", "c231" = excluded."c231", "c232" = excluded."c232", "c233" = excluded."c233", "c234" = excluded."c234", "c235" = excluded."c235", "c236" = excluded."c236", "c237" = excluded."c237", "c238" = excluded."c238", "c239" = excluded."c239", "c240" = excluded."c240", "c241" = excluded."c241", "c242" = excluded."c242", "c243" = excluded."c243", "c244" = excluded."c244", "c245" = excluded."c245", "c246" = excluded."c246";
end
$msrepl$;
alter function "msrepl"."msmerge_log_00112233445566778899aabbccddeeff"(uuid, uuid, text) owner to "msrepl_table_c268110370c2_f059f10c4aed";
revoke all on function "msrepl"."msmerge_log_00112233445566778899aabbccddeeff"(uuid, uuid, text) from public;
grant execute on function "msrepl"."msmerge_log_00112233445566778899aabbccddeeff"(uuid, uuid, text) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."msmerge_log_00112233445566778899aabbccddeeff"(uuid, uuid, text) is 'Keeps a row that has lost a conflict of t for merge replication';

-- msmerge_enumerate_<artid>: rows of an article that a range of generations changed, for the session's neighbour.
-- called by: merge agents, in the transaction that has closed the last of these generations
-- tables:    the article's part of msrepl.msmerge_metadata, msrepl.msmerge_genhistory; the article's table
-- holes:     function, metadata, read, changed_since, path_is_kept, owner, comment
--
-- What came from the neighbour is not sent back to it. Whether a row is gone is seen in the table: a trigger that
-- deletes the row for which it fires, or puts it back, is recorded before the statement that has fired it.
create or replace function "msrepl"."msmerge_enumerate_00112233445566778899aabbccddeeff"(after int8, upto int8)
returns table (rowguid uuid, gone boolean, lineage int8[], colv int8[], writer int8, "row" text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant int8 := (msrepl.merge_neighbour()).replnickname;
    me constant int8 := (select r.replica from msrepl.msmerge_replica as r);
    seen constant pg_snapshot := (select g.snap from msrepl.msmerge_genhistory as g where g.generation = $1);
    present constant pg_snapshot := (select g.snap from msrepl.msmerge_genhistory as g where g.generation = $2);
begin
    if seen is null or present is null then
        raise exception 'generation % or % is not known here any more (21333)', $1, $2
            using errcode = 'object_not_in_prerequisite_state', hint = 'Subscribe anew.';
    end if;
    return query
    with changed as materialized (
        select m.* from "msrepl"."msmerge_metadata_7" as m
        where m.xid >= pg_snapshot_xmin(seen) and m.xid < pg_snapshot_xmax(present)
          and not pg_visible_in_snapshot(m.xid, seen) and pg_visible_in_snapshot(m.xid, present)
          and m.source is distinct from peer
    )
    select c.rowguid, r.rowguid is null, msrepl.merge_lineage(c.lineage, me, c.own), msrepl.merge_colv(c.colv, me),
           coalesce(c.writer, me), r."row"
    from changed as c
    left join "msrepl"."msmerge_read_00112233445566778899aabbccddeeff"(array(select d.rowguid from changed as d)) as r on r.rowguid = c.rowguid
    order by c.rowguid;
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered behind calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function sets itself, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 't'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;

end
$msrepl$;
alter function "msrepl"."msmerge_enumerate_00112233445566778899aabbccddeeff"(int8, int8) owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."msmerge_enumerate_00112233445566778899aabbccddeeff"(int8, int8) from public;
comment on function "msrepl"."msmerge_enumerate_00112233445566778899aabbccddeeff"(int8, int8) is 'Reads what generations have changed of t for merge replication';

-- msmerge_hold_<artid>: locks what is held of rows that a neighbour has sent, and says what it is.
-- called by: merge agents that ask a resolver or a handler about rows, before merge_apply in the same transaction
-- tables:    the article's table and its part of msrepl.msmerge_metadata; msrepl.sysmergesubscriptions, msrepl.msmerge_genhistory
-- holes:     function, metadata, floor, lock, read, path_is_kept, owner, comment
--
-- Rows are locked before their metadata, as applications do.
create or replace function "msrepl"."msmerge_hold_00112233445566778899aabbccddeeff"(guids uuid[], writers int8[])
returns table (
    rowguid uuid, "row" text, gone boolean, lineage int8[], colv int8[], held_by text, held_priority real,
    peer text, priority real, replica int8,
    is_confirmed boolean, lowest integer, others int8[]
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    me constant int8 := (select r.replica from msrepl.msmerge_replica as r);
    confirmed constant pg_snapshot := (
        select g.snap from msrepl.msmerge_genhistory as g where g.generation = peer.sentgen and peer.is_publisher);
begin
    perform from "msrepl"."msmerge_lock_00112233445566778899aabbccddeeff"($1);
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered behind calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function sets itself, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 't'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;

    perform from "msrepl"."msmerge_metadata_7" as m where m.rowguid = any ($1) order by m.rowguid for update;
    return query
    select i.guid, h."row", case when m.rowguid is not null then h.rowguid is null end, msrepl.merge_lineage(m.lineage, me, m.own), msrepl.merge_colv(m.colv, me),
           coalesce(w.subscriber_server, s.subscriber_server),
           case when w.subscriber_type = 1 then w.priority else 100 end,
           peer.subscriber_server, msrepl.merge_priority(peer, i.writer), me,
           coalesce(pg_visible_in_snapshot(m.xid, confirmed), false), (select f.last_value::integer from "msrepl"."msmerge_floor_7" as f),
           coalesce(msrepl.merge_others(peer), '{}')
    from unnest($1, $2) with ordinality as i(guid, writer, place)
    left join "msrepl"."msmerge_read_00112233445566778899aabbccddeeff"($1) as h on h.rowguid = i.guid
    left join "msrepl"."msmerge_metadata_7" as m on m.rowguid = i.guid
    left join msrepl.sysmergesubscriptions as w on m.writer = any (w.former || w.replnickname)
    join msrepl.sysmergesubscriptions as s on s.is_self
    order by i.place;
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered behind calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function sets itself, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 't'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;

end
$msrepl$;
alter function "msrepl"."msmerge_hold_00112233445566778899aabbccddeeff"(uuid[], int8[]) owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."msmerge_hold_00112233445566778899aabbccddeeff"(uuid[], int8[]) from public;
comment on function "msrepl"."msmerge_hold_00112233445566778899aabbccddeeff"(uuid[], int8[]) is 'Locks and reads what is held of rows of t for merge replication';

-- msmerge_amend_<artid>: puts values on rows, as a change of this node: what a resolver or a handler has made of them.
-- called by: merge agents, after merge_apply in the same transaction
-- tables:    the article's part of msrepl.msmerge_metadata
-- holes:     function, metadata, write, column_tracking, count, path_is_kept, owner, comment
--
-- takens says which columns of each row are taken. A trigger of ours lets an agent's own rows pass, so their
-- metadata is written here as it would be for an application's update.
create or replace function "msrepl"."msmerge_amend_00112233445566778899aabbccddeeff"(guids uuid[], rows text[], takens text[]) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
begin
    perform msrepl.merge_neighbour();
    perform "msrepl"."msmerge_write_00112233445566778899aabbccddeeff"('{}', $1, $2, $3, '{}', '{}');
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered behind calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function sets itself, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 't'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;

    update "msrepl"."msmerge_metadata_7" as m
    set xid = pg_current_xact_id(), own = m.top + 1, top = m.top + 1, source = null, writer = null,
        colv = case when true then array(
            select case when (a.taken::boolean[])[p.place] then m.top + 1 else coalesce(m.colv[p.place], 0) end
            from generate_series(1, 246) as p(place) order by p.place) end
    from unnest($1, $3) as a(guid, taken)
    where m.rowguid = a.guid;
end
$msrepl$;
alter function "msrepl"."msmerge_amend_00112233445566778899aabbccddeeff"(uuid[], text[], text[]) owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."msmerge_amend_00112233445566778899aabbccddeeff"(uuid[], text[], text[]) from public;
comment on function "msrepl"."msmerge_amend_00112233445566778899aabbccddeeff"(uuid[], text[], text[]) is 'Puts values on rows of t for merge replication';

-- msmerge_take_<artid>: decides about rows that a neighbour has sent, writes them, and records what is known of them.
-- called by: msrepl.merge_apply
-- tables:    the article's table and its part of msrepl.msmerge_metadata; msrepl.msmerge_conflicts_info
-- holes:     function, metadata, tablenick, floor, lock, read, write, log, column_tracking, overwrites, priority, taken,
--            keeps_losers, path_is_kept, owner, comment
--
-- Metadata is written before the rows, so that what a user's trigger then changes is recorded on top of it. Rows are
-- locked before their metadata, as applications do; the lock of a row that is there serves for both. If each of them stands on all that is held here, as
-- nearly always, they take its place as they came; else it is decided for each. What was made here, by a merge or a
-- conflict, has no source: the neighbour needs it, too. A row that the neighbour cannot know yet is left, and goes up
-- by itself. A Subscriber's changes are its own, whoever it names as their writer, but for server subscriptions below it.
create or replace function "msrepl"."msmerge_take_00112233445566778899aabbccddeeff"(
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
    confirmed constant pg_snapshot := (
        select g.snap from msrepl.msmerge_genhistory as g where g.generation = peer.sentgen and peer.is_publisher);
    lowest constant integer := (select f.last_value from "msrepl"."msmerge_floor_7" as f);
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
    present := array(select l.rowguid from "msrepl"."msmerge_lock_00112233445566778899aabbccddeeff"($1) as l);
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered behind calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function sets itself, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 't'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;

    if cardinality(present) < cardinality($1) then
        perform from "msrepl"."msmerge_metadata_7" as m where m.rowguid = any ($1) order by m.rowguid for update;
    end if;
    if false or array_position(choices, 'held') is null and not exists (
        select from unnest($1, $3) as i(rowguid, lineage)
        cross join lateral (select m.lineage, m.own from "msrepl"."msmerge_metadata_7" as m where m.rowguid = i.rowguid offset 0) as m
        where not msrepl.merge_precedes(msrepl.merge_lineage(m.lineage, me, m.own), i.lineage::int8[]))
    then
        applied := cardinality($1); skipped := 0; conflicts := 0; deferred := 0;
    else
        judgements := array(
            select row(i.rowguid, i."row", h."row", m.writer, d.verdict, d.conflict, d.taken, d.gone,
                       d.lineage, d.colv, case when d.verdict in ('apply', 'replace') then i.writer
                                               when d.verdict = 'keep' then m.writer end,
                       case when d.conflict is not null then
                           msrepl.merge_conflict_id(7, i.rowguid,
                               case d.verdict when 'keep' then i.lineage::int8[]
                                              else msrepl.merge_lineage(m.lineage, me, m.own) end,
                               case d.verdict when 'keep' then i."row" else h."row" end) end)::msrepl.merge_judgement
            from unnest($1, $2, $3, $4, $5, $6, $7) as i(rowguid, gone, lineage, colv, writer, "row", choice)
            left join "msrepl"."msmerge_read_00112233445566778899aabbccddeeff"($1) as h on h.rowguid = i.rowguid
            left join lateral (select m.* from "msrepl"."msmerge_metadata_7" as m where m.rowguid = i.rowguid offset 0) as m on true
            cross join lateral msrepl.merge_decide(
                case when m.rowguid is not null then h.rowguid is null end, msrepl.merge_lineage(m.lineage, me, m.own), msrepl.merge_colv(m.colv, me),
                coalesce((select s.priority from msrepl.sysmergesubscriptions as s
                          where m.writer = any (s.former || s.replnickname) and s.subscriber_type = 1), 100),
                i.gone, i.lineage::int8[],
                msrepl.merge_unforgotten(i.colv::int8[], i.lineage::int8[], msrepl.merge_lineage(m.lineage, me, m.own), others, lowest),
                msrepl.merge_priority(peer, i.writer),
                me, true, not peer.is_publisher, i."row" is not distinct from h."row",
                i.choice, h.rowguid is not null, pg_visible_in_snapshot(m.xid, confirmed), lowest) as d
            order by i.rowguid);
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered behind calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function sets itself, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 't'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;

        perform msrepl.merge_record_conflicts(7, judgements);
        perform "msrepl"."msmerge_log_00112233445566778899aabbccddeeff"(j.conflict_id, j.rowguid, case j.verdict when 'keep' then j."row" else j.held_row end)
        from unnest(judgements) as j
        where true and j.conflict is not null and case j.verdict when 'keep' then j."row" else j.held_row end is not null;
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered behind calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function sets itself, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 't'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;

        update "msrepl"."msmerge_metadata_7" as m
        set xid = pg_current_xact_id(), source = null
        from unnest(judgements) as j
        where j.verdict = 'defer' and m.rowguid = j.rowguid
          and pg_visible_in_snapshot(m.xid, (
              select g.snap from msrepl.msmerge_genhistory as g order by g.generation desc limit 1));
        select count(*) filter (where j.verdict in ('apply', 'merge', 'replace')), count(*) filter (where j.verdict = 'skip'),
               count(*) filter (where j.conflict is not null), count(*) filter (where j.verdict = 'defer')
        into applied, skipped, conflicts, deferred from unnest(judgements) as j;
        select coalesce(array_agg(j.rowguid), '{}'), array_agg(j.gone), array_agg(j.lineage::text), array_agg(j.colv::text),
               array_agg(j.writer), array_agg(j."row"), array_agg(j.taken::text), array_agg(j.verdict)
        into guids, gones, lineages, colvs, writers, rows, takens, verdicts
        from unnest(judgements) as j where j.verdict in ('apply', 'replace', 'merge', 'keep');
    end if;
    insert into "msrepl"."msmerge_metadata_7" as m (tablenick, rowguid, xid, gone, own, top, lineage, colv, source, writer)
    select 7, i.rowguid, pg_current_xact_id(), i.gone, l.own, l.top, l.others, i.colv::int8[],
           case when i.verdict is null or i.verdict = 'apply' then peer.replnickname end, nullif(i.writer, me)
    from unnest($1, $2, $3, $4, $5, verdicts) as i(rowguid, gone, lineage, colv, writer, verdict)
    cross join lateral msrepl.merge_lineage_parts(i.lineage::int8[], me) as l
    on conflict (rowguid) do update
    set xid = excluded.xid, gone = excluded.gone, own = excluded.own, top = excluded.top, lineage = excluded.lineage,
        colv = excluded.colv, source = excluded.source, writer = excluded.writer;
    perform "msrepl"."msmerge_write_00112233445566778899aabbccddeeff"(
        coalesce(array_agg(w.rowguid) filter (where w.gone and w.is_present), '{}'),
        coalesce(array_agg(w.rowguid) filter (where not w.gone and w.is_present), '{}'),
        coalesce(array_agg(w."row") filter (where not w.gone and w.is_present), '{}'),
        array_agg(w.taken) filter (where not w.gone and w.is_present),
        coalesce(array_agg(w.rowguid) filter (where not w.gone and not w.is_present), '{}'),
        coalesce(array_agg(w."row") filter (where not w.gone and not w.is_present), '{}'))
    from (
        select i.rowguid, i.gone, i."row", i.taken, h.rowguid is not null as is_present
        from unnest($1, $2, $6, takens, verdicts) as i(rowguid, gone, "row", taken, verdict)
        left join unnest(present) as h(rowguid) on h.rowguid = i.rowguid
        where i.verdict is distinct from 'keep'
    ) as w;
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered behind calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function sets itself, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 't'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;

end
$msrepl$;
alter function "msrepl"."msmerge_take_00112233445566778899aabbccddeeff"(uuid[], boolean[], text[], text[], int8[], text[], text[]) owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."msmerge_take_00112233445566778899aabbccddeeff"(uuid[], boolean[], text[], text[], int8[], text[], text[]) from public;
comment on function "msrepl"."msmerge_take_00112233445566778899aabbccddeeff"(uuid[], boolean[], text[], text[], int8[], text[], text[]) is 'Takes rows that a neighbour has sent into t for merge replication';

drop trigger if exists "msmerge_ins_00112233445566778899aabbccddeeff" on "public"."t";

drop trigger if exists "msmerge_upd_00112233445566778899aabbccddeeff" on "public"."t";

drop trigger if exists "msmerge_del_00112233445566778899aabbccddeeff" on "public"."t";

drop trigger if exists "msmerge_guid_00112233445566778899aabbccddeeff" on "public"."t";

drop trigger if exists "msmerge_ref_00112233445566778899aabbccddeeff" on "public"."t";

drop trigger if exists "trg_mssync_truncate_t" on "public"."t";

drop function if exists "msrepl"."msmerge_ins_00112233445566778899aabbccddeeff"();

drop function if exists "msrepl"."msmerge_upd_00112233445566778899aabbccddeeff"();

drop function if exists "msrepl"."msmerge_del_00112233445566778899aabbccddeeff"();

drop table if exists "msrepl"."msmerge_metadata_7";

drop sequence if exists "msrepl"."msmerge_floor_7";

drop function if exists "msrepl"."msmerge_enumerate_00112233445566778899aabbccddeeff"(int8, int8);

drop function if exists "msrepl"."msmerge_hold_00112233445566778899aabbccddeeff"(uuid[], int8[]);

drop function if exists "msrepl"."msmerge_amend_00112233445566778899aabbccddeeff"(uuid[], text[], text[]);

drop function if exists "msrepl"."msmerge_read_00112233445566778899aabbccddeeff"(uuid[]);

drop function if exists "msrepl"."msmerge_lock_00112233445566778899aabbccddeeff"(uuid[]);

drop function if exists "msrepl"."msmerge_write_00112233445566778899aabbccddeeff"(uuid[], uuid[], text[], text[], uuid[], text[]);

drop function if exists "msrepl"."msmerge_log_00112233445566778899aabbccddeeff"(uuid, uuid, text);

drop function if exists "msrepl"."msmerge_ask_00112233445566778899aabbccddeeff"(jsonb);

drop function if exists "msrepl"."msmerge_call_00112233445566778899aabbccddeeff"(jsonb);

drop function if exists "msrepl"."msmerge_take_00112233445566778899aabbccddeeff"(uuid[], boolean[], text[], text[], int8[], text[], text[]);

drop type if exists "msrepl"."msmerge_row_00112233445566778899aabbccddeeff";

drop table if exists "msrepl"."msmerge_conflict_merge_t";

-- Drops the role that writes a table, once it owns none of our functions any more.
-- called by: twopc.publisher.publication, twopc.subscriber.subscription, twopc.subscriber.propagation
-- tables:    catalogs
-- holes:     role, role_text
do $msrepl$
begin
    if exists (select from pg_roles where rolname = 'msrepl_table_c268110370c2_f059f10c4aed') and not exists (
        select from pg_proc as p join pg_roles as r on r.oid = p.proowner
        where r.rolname = 'msrepl_table_c268110370c2_f059f10c4aed' and p.pronamespace = to_regnamespace('msrepl')
    ) then
        drop owned by "msrepl_table_c268110370c2_f059f10c4aed" cascade;
        drop role "msrepl_table_c268110370c2_f059f10c4aed";
    end if;
end
$msrepl$;

-- Drops the role that writes a table, once it owns none of our functions any more.
-- called by: twopc.publisher.publication, twopc.subscriber.subscription, twopc.subscriber.propagation
-- tables:    catalogs
-- holes:     role, role_text
do $msrepl$
begin
    if exists (select from pg_roles where rolname = 'msrepl_table_c268110370c2_resolver_001122334455') and not exists (
        select from pg_proc as p join pg_roles as r on r.oid = p.proowner
        where r.rolname = 'msrepl_table_c268110370c2_resolver_001122334455' and p.pronamespace = to_regnamespace('msrepl')
    ) then
        drop owned by "msrepl_table_c268110370c2_resolver_001122334455" cascade;
        drop role "msrepl_table_c268110370c2_resolver_001122334455";
    end if;
end
$msrepl$;
