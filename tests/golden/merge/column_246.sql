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
    select 7, n."rowguid", pg_current_xact_id(), false, 1, 1, array_fill(1::int8, array[246])
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
           array[case when bool_or((("o"."c1" operator(pg_catalog.=) "n"."c1" or "o"."c1" is null and "n"."c1" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c2" operator(pg_catalog.=) "n"."c2" or "o"."c2" is null and "n"."c2" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c3" operator(pg_catalog.=) "n"."c3" or "o"."c3" is null and "n"."c3" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c4" operator(pg_catalog.=) "n"."c4" or "o"."c4" is null and "n"."c4" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c5" operator(pg_catalog.=) "n"."c5" or "o"."c5" is null and "n"."c5" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c6" operator(pg_catalog.=) "n"."c6" or "o"."c6" is null and "n"."c6" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c7" operator(pg_catalog.=) "n"."c7" or "o"."c7" is null and "n"."c7" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c8" operator(pg_catalog.=) "n"."c8" or "o"."c8" is null and "n"."c8" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c9" operator(pg_catalog.=) "n"."c9" or "o"."c9" is null and "n"."c9" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c10" operator(pg_catalog.=) "n"."c10" or "o"."c10" is null and "n"."c10" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c11" operator(pg_catalog.=) "n"."c11" or "o"."c11" is null and "n"."c11" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c12" operator(pg_catalog.=) "n"."c12" or "o"."c12" is null and "n"."c12" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c13" operator(pg_catalog.=) "n"."c13" or "o"."c13" is null and "n"."c13" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c14" operator(pg_catalog.=) "n"."c14" or "o"."c14" is null and "n"."c14" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c15" operator(pg_catalog.=) "n"."c15" or "o"."c15" is null and "n"."c15" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c16" operator(pg_catalog.=) "n"."c16" or "o"."c16" is null and "n"."c16" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c17" operator(pg_catalog.=) "n"."c17" or "o"."c17" is null and "n"."c17" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c18" operator(pg_catalog.=) "n"."c18" or "o"."c18" is null and "n"."c18" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c19" operator(pg_catalog.=) "n"."c19" or "o"."c19" is null and "n"."c19" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c20" operator(pg_catalog.=) "n"."c20" or "o"."c20" is null and "n"."c20" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c21" operator(pg_catalog.=) "n"."c21" or "o"."c21" is null and "n"."c21" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c22" operator(pg_catalog.=) "n"."c22" or "o"."c22" is null and "n"."c22" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c23" operator(pg_catalog.=) "n"."c23" or "o"."c23" is null and "n"."c23" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c24" operator(pg_catalog.=) "n"."c24" or "o"."c24" is null and "n"."c24" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c25" operator(pg_catalog.=) "n"."c25" or "o"."c25" is null and "n"."c25" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c26" operator(pg_catalog.=) "n"."c26" or "o"."c26" is null and "n"."c26" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c27" operator(pg_catalog.=) "n"."c27" or "o"."c27" is null and "n"."c27" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c28" operator(pg_catalog.=) "n"."c28" or "o"."c28" is null and "n"."c28" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c29" operator(pg_catalog.=) "n"."c29" or "o"."c29" is null and "n"."c29" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c30" operator(pg_catalog.=) "n"."c30" or "o"."c30" is null and "n"."c30" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c31" operator(pg_catalog.=) "n"."c31" or "o"."c31" is null and "n"."c31" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c32" operator(pg_catalog.=) "n"."c32" or "o"."c32" is null and "n"."c32" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c33" operator(pg_catalog.=) "n"."c33" or "o"."c33" is null and "n"."c33" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c34" operator(pg_catalog.=) "n"."c34" or "o"."c34" is null and "n"."c34" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c35" operator(pg_catalog.=) "n"."c35" or "o"."c35" is null and "n"."c35" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c36" operator(pg_catalog.=) "n"."c36" or "o"."c36" is null and "n"."c36" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c37" operator(pg_catalog.=) "n"."c37" or "o"."c37" is null and "n"."c37" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c38" operator(pg_catalog.=) "n"."c38" or "o"."c38" is null and "n"."c38" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c39" operator(pg_catalog.=) "n"."c39" or "o"."c39" is null and "n"."c39" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c40" operator(pg_catalog.=) "n"."c40" or "o"."c40" is null and "n"."c40" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c41" operator(pg_catalog.=) "n"."c41" or "o"."c41" is null and "n"."c41" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c42" operator(pg_catalog.=) "n"."c42" or "o"."c42" is null and "n"."c42" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c43" operator(pg_catalog.=) "n"."c43" or "o"."c43" is null and "n"."c43" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c44" operator(pg_catalog.=) "n"."c44" or "o"."c44" is null and "n"."c44" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c45" operator(pg_catalog.=) "n"."c45" or "o"."c45" is null and "n"."c45" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c46" operator(pg_catalog.=) "n"."c46" or "o"."c46" is null and "n"."c46" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c47" operator(pg_catalog.=) "n"."c47" or "o"."c47" is null and "n"."c47" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c48" operator(pg_catalog.=) "n"."c48" or "o"."c48" is null and "n"."c48" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c49" operator(pg_catalog.=) "n"."c49" or "o"."c49" is null and "n"."c49" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c50" operator(pg_catalog.=) "n"."c50" or "o"."c50" is null and "n"."c50" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c51" operator(pg_catalog.=) "n"."c51" or "o"."c51" is null and "n"."c51" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c52" operator(pg_catalog.=) "n"."c52" or "o"."c52" is null and "n"."c52" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c53" operator(pg_catalog.=) "n"."c53" or "o"."c53" is null and "n"."c53" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c54" operator(pg_catalog.=) "n"."c54" or "o"."c54" is null and "n"."c54" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c55" operator(pg_catalog.=) "n"."c55" or "o"."c55" is null and "n"."c55" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c56" operator(pg_catalog.=) "n"."c56" or "o"."c56" is null and "n"."c56" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c57" operator(pg_catalog.=) "n"."c57" or "o"."c57" is null and "n"."c57" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c58" operator(pg_catalog.=) "n"."c58" or "o"."c58" is null and "n"."c58" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c59" operator(pg_catalog.=) "n"."c59" or "o"."c59" is null and "n"."c59" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c60" operator(pg_catalog.=) "n"."c60" or "o"."c60" is null and "n"."c60" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c61" operator(pg_catalog.=) "n"."c61" or "o"."c61" is null and "n"."c61" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c62" operator(pg_catalog.=) "n"."c62" or "o"."c62" is null and "n"."c62" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c63" operator(pg_catalog.=) "n"."c63" or "o"."c63" is null and "n"."c63" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c64" operator(pg_catalog.=) "n"."c64" or "o"."c64" is null and "n"."c64" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c65" operator(pg_catalog.=) "n"."c65" or "o"."c65" is null and "n"."c65" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c66" operator(pg_catalog.=) "n"."c66" or "o"."c66" is null and "n"."c66" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c67" operator(pg_catalog.=) "n"."c67" or "o"."c67" is null and "n"."c67" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c68" operator(pg_catalog.=) "n"."c68" or "o"."c68" is null and "n"."c68" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c69" operator(pg_catalog.=) "n"."c69" or "o"."c69" is null and "n"."c69" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c70" operator(pg_catalog.=) "n"."c70" or "o"."c70" is null and "n"."c70" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c71" operator(pg_catalog.=) "n"."c71" or "o"."c71" is null and "n"."c71" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c72" operator(pg_catalog.=) "n"."c72" or "o"."c72" is null and "n"."c72" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c73" operator(pg_catalog.=) "n"."c73" or "o"."c73" is null and "n"."c73" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c74" operator(pg_catalog.=) "n"."c74" or "o"."c74" is null and "n"."c74" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c75" operator(pg_catalog.=) "n"."c75" or "o"."c75" is null and "n"."c75" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c76" operator(pg_catalog.=) "n"."c76" or "o"."c76" is null and "n"."c76" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c77" operator(pg_catalog.=) "n"."c77" or "o"."c77" is null and "n"."c77" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c78" operator(pg_catalog.=) "n"."c78" or "o"."c78" is null and "n"."c78" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c79" operator(pg_catalog.=) "n"."c79" or "o"."c79" is null and "n"."c79" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c80" operator(pg_catalog.=) "n"."c80" or "o"."c80" is null and "n"."c80" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c81" operator(pg_catalog.=) "n"."c81" or "o"."c81" is null and "n"."c81" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c82" operator(pg_catalog.=) "n"."c82" or "o"."c82" is null and "n"."c82" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c83" operator(pg_catalog.=) "n"."c83" or "o"."c83" is null and "n"."c83" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c84" operator(pg_catalog.=) "n"."c84" or "o"."c84" is null and "n"."c84" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c85" operator(pg_catalog.=) "n"."c85" or "o"."c85" is null and "n"."c85" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c86" operator(pg_catalog.=) "n"."c86" or "o"."c86" is null and "n"."c86" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c87" operator(pg_catalog.=) "n"."c87" or "o"."c87" is null and "n"."c87" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c88" operator(pg_catalog.=) "n"."c88" or "o"."c88" is null and "n"."c88" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c89" operator(pg_catalog.=) "n"."c89" or "o"."c89" is null and "n"."c89" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c90" operator(pg_catalog.=) "n"."c90" or "o"."c90" is null and "n"."c90" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c91" operator(pg_catalog.=) "n"."c91" or "o"."c91" is null and "n"."c91" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c92" operator(pg_catalog.=) "n"."c92" or "o"."c92" is null and "n"."c92" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c93" operator(pg_catalog.=) "n"."c93" or "o"."c93" is null and "n"."c93" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c94" operator(pg_catalog.=) "n"."c94" or "o"."c94" is null and "n"."c94" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c95" operator(pg_catalog.=) "n"."c95" or "o"."c95" is null and "n"."c95" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c96" operator(pg_catalog.=) "n"."c96" or "o"."c96" is null and "n"."c96" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c97" operator(pg_catalog.=) "n"."c97" or "o"."c97" is null and "n"."c97" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c98" operator(pg_catalog.=) "n"."c98" or "o"."c98" is null and "n"."c98" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c99" operator(pg_catalog.=) "n"."c99" or "o"."c99" is null and "n"."c99" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c100" operator(pg_catalog.=) "n"."c100" or "o"."c100" is null and "n"."c100" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c101" operator(pg_catalog.=) "n"."c101" or "o"."c101" is null and "n"."c101" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c102" operator(pg_catalog.=) "n"."c102" or "o"."c102" is null and "n"."c102" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c103" operator(pg_catalog.=) "n"."c103" or "o"."c103" is null and "n"."c103" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c104" operator(pg_catalog.=) "n"."c104" or "o"."c104" is null and "n"."c104" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c105" operator(pg_catalog.=) "n"."c105" or "o"."c105" is null and "n"."c105" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c106" operator(pg_catalog.=) "n"."c106" or "o"."c106" is null and "n"."c106" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c107" operator(pg_catalog.=) "n"."c107" or "o"."c107" is null and "n"."c107" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c108" operator(pg_catalog.=) "n"."c108" or "o"."c108" is null and "n"."c108" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c109" operator(pg_catalog.=) "n"."c109" or "o"."c109" is null and "n"."c109" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c110" operator(pg_catalog.=) "n"."c110" or "o"."c110" is null and "n"."c110" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c111" operator(pg_catalog.=) "n"."c111" or "o"."c111" is null and "n"."c111" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c112" operator(pg_catalog.=) "n"."c112" or "o"."c112" is null and "n"."c112" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c113" operator(pg_catalog.=) "n"."c113" or "o"."c113" is null and "n"."c113" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c114" operator(pg_catalog.=) "n"."c114" or "o"."c114" is null and "n"."c114" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c115" operator(pg_catalog.=) "n"."c115" or "o"."c115" is null and "n"."c115" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c116" operator(pg_catalog.=) "n"."c116" or "o"."c116" is null and "n"."c116" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c117" operator(pg_catalog.=) "n"."c117" or "o"."c117" is null and "n"."c117" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c118" operator(pg_catalog.=) "n"."c118" or "o"."c118" is null and "n"."c118" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c119" operator(pg_catalog.=) "n"."c119" or "o"."c119" is null and "n"."c119" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c120" operator(pg_catalog.=) "n"."c120" or "o"."c120" is null and "n"."c120" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c121" operator(pg_catalog.=) "n"."c121" or "o"."c121" is null and "n"."c121" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c122" operator(pg_catalog.=) "n"."c122" or "o"."c122" is null and "n"."c122" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c123" operator(pg_catalog.=) "n"."c123" or "o"."c123" is null and "n"."c123" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c124" operator(pg_catalog.=) "n"."c124" or "o"."c124" is null and "n"."c124" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c125" operator(pg_catalog.=) "n"."c125" or "o"."c125" is null and "n"."c125" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c126" operator(pg_catalog.=) "n"."c126" or "o"."c126" is null and "n"."c126" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c127" operator(pg_catalog.=) "n"."c127" or "o"."c127" is null and "n"."c127" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c128" operator(pg_catalog.=) "n"."c128" or "o"."c128" is null and "n"."c128" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c129" operator(pg_catalog.=) "n"."c129" or "o"."c129" is null and "n"."c129" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c130" operator(pg_catalog.=) "n"."c130" or "o"."c130" is null and "n"."c130" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c131" operator(pg_catalog.=) "n"."c131" or "o"."c131" is null and "n"."c131" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c132" operator(pg_catalog.=) "n"."c132" or "o"."c132" is null and "n"."c132" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c133" operator(pg_catalog.=) "n"."c133" or "o"."c133" is null and "n"."c133" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c134" operator(pg_catalog.=) "n"."c134" or "o"."c134" is null and "n"."c134" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c135" operator(pg_catalog.=) "n"."c135" or "o"."c135" is null and "n"."c135" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c136" operator(pg_catalog.=) "n"."c136" or "o"."c136" is null and "n"."c136" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c137" operator(pg_catalog.=) "n"."c137" or "o"."c137" is null and "n"."c137" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c138" operator(pg_catalog.=) "n"."c138" or "o"."c138" is null and "n"."c138" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c139" operator(pg_catalog.=) "n"."c139" or "o"."c139" is null and "n"."c139" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c140" operator(pg_catalog.=) "n"."c140" or "o"."c140" is null and "n"."c140" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c141" operator(pg_catalog.=) "n"."c141" or "o"."c141" is null and "n"."c141" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c142" operator(pg_catalog.=) "n"."c142" or "o"."c142" is null and "n"."c142" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c143" operator(pg_catalog.=) "n"."c143" or "o"."c143" is null and "n"."c143" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c144" operator(pg_catalog.=) "n"."c144" or "o"."c144" is null and "n"."c144" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c145" operator(pg_catalog.=) "n"."c145" or "o"."c145" is null and "n"."c145" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c146" operator(pg_catalog.=) "n"."c146" or "o"."c146" is null and "n"."c146" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c147" operator(pg_catalog.=) "n"."c147" or "o"."c147" is null and "n"."c147" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c148" operator(pg_catalog.=) "n"."c148" or "o"."c148" is null and "n"."c148" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c149" operator(pg_catalog.=) "n"."c149" or "o"."c149" is null and "n"."c149" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c150" operator(pg_catalog.=) "n"."c150" or "o"."c150" is null and "n"."c150" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c151" operator(pg_catalog.=) "n"."c151" or "o"."c151" is null and "n"."c151" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c152" operator(pg_catalog.=) "n"."c152" or "o"."c152" is null and "n"."c152" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c153" operator(pg_catalog.=) "n"."c153" or "o"."c153" is null and "n"."c153" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c154" operator(pg_catalog.=) "n"."c154" or "o"."c154" is null and "n"."c154" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c155" operator(pg_catalog.=) "n"."c155" or "o"."c155" is null and "n"."c155" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c156" operator(pg_catalog.=) "n"."c156" or "o"."c156" is null and "n"."c156" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c157" operator(pg_catalog.=) "n"."c157" or "o"."c157" is null and "n"."c157" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c158" operator(pg_catalog.=) "n"."c158" or "o"."c158" is null and "n"."c158" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c159" operator(pg_catalog.=) "n"."c159" or "o"."c159" is null and "n"."c159" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c160" operator(pg_catalog.=) "n"."c160" or "o"."c160" is null and "n"."c160" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c161" operator(pg_catalog.=) "n"."c161" or "o"."c161" is null and "n"."c161" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c162" operator(pg_catalog.=) "n"."c162" or "o"."c162" is null and "n"."c162" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c163" operator(pg_catalog.=) "n"."c163" or "o"."c163" is null and "n"."c163" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c164" operator(pg_catalog.=) "n"."c164" or "o"."c164" is null and "n"."c164" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c165" operator(pg_catalog.=) "n"."c165" or "o"."c165" is null and "n"."c165" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c166" operator(pg_catalog.=) "n"."c166" or "o"."c166" is null and "n"."c166" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c167" operator(pg_catalog.=) "n"."c167" or "o"."c167" is null and "n"."c167" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c168" operator(pg_catalog.=) "n"."c168" or "o"."c168" is null and "n"."c168" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c169" operator(pg_catalog.=) "n"."c169" or "o"."c169" is null and "n"."c169" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c170" operator(pg_catalog.=) "n"."c170" or "o"."c170" is null and "n"."c170" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c171" operator(pg_catalog.=) "n"."c171" or "o"."c171" is null and "n"."c171" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c172" operator(pg_catalog.=) "n"."c172" or "o"."c172" is null and "n"."c172" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c173" operator(pg_catalog.=) "n"."c173" or "o"."c173" is null and "n"."c173" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c174" operator(pg_catalog.=) "n"."c174" or "o"."c174" is null and "n"."c174" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c175" operator(pg_catalog.=) "n"."c175" or "o"."c175" is null and "n"."c175" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c176" operator(pg_catalog.=) "n"."c176" or "o"."c176" is null and "n"."c176" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c177" operator(pg_catalog.=) "n"."c177" or "o"."c177" is null and "n"."c177" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c178" operator(pg_catalog.=) "n"."c178" or "o"."c178" is null and "n"."c178" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c179" operator(pg_catalog.=) "n"."c179" or "o"."c179" is null and "n"."c179" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c180" operator(pg_catalog.=) "n"."c180" or "o"."c180" is null and "n"."c180" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c181" operator(pg_catalog.=) "n"."c181" or "o"."c181" is null and "n"."c181" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c182" operator(pg_catalog.=) "n"."c182" or "o"."c182" is null and "n"."c182" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c183" operator(pg_catalog.=) "n"."c183" or "o"."c183" is null and "n"."c183" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c184" operator(pg_catalog.=) "n"."c184" or "o"."c184" is null and "n"."c184" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c185" operator(pg_catalog.=) "n"."c185" or "o"."c185" is null and "n"."c185" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c186" operator(pg_catalog.=) "n"."c186" or "o"."c186" is null and "n"."c186" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c187" operator(pg_catalog.=) "n"."c187" or "o"."c187" is null and "n"."c187" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c188" operator(pg_catalog.=) "n"."c188" or "o"."c188" is null and "n"."c188" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c189" operator(pg_catalog.=) "n"."c189" or "o"."c189" is null and "n"."c189" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c190" operator(pg_catalog.=) "n"."c190" or "o"."c190" is null and "n"."c190" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c191" operator(pg_catalog.=) "n"."c191" or "o"."c191" is null and "n"."c191" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c192" operator(pg_catalog.=) "n"."c192" or "o"."c192" is null and "n"."c192" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c193" operator(pg_catalog.=) "n"."c193" or "o"."c193" is null and "n"."c193" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c194" operator(pg_catalog.=) "n"."c194" or "o"."c194" is null and "n"."c194" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c195" operator(pg_catalog.=) "n"."c195" or "o"."c195" is null and "n"."c195" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c196" operator(pg_catalog.=) "n"."c196" or "o"."c196" is null and "n"."c196" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c197" operator(pg_catalog.=) "n"."c197" or "o"."c197" is null and "n"."c197" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c198" operator(pg_catalog.=) "n"."c198" or "o"."c198" is null and "n"."c198" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c199" operator(pg_catalog.=) "n"."c199" or "o"."c199" is null and "n"."c199" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c200" operator(pg_catalog.=) "n"."c200" or "o"."c200" is null and "n"."c200" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c201" operator(pg_catalog.=) "n"."c201" or "o"."c201" is null and "n"."c201" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c202" operator(pg_catalog.=) "n"."c202" or "o"."c202" is null and "n"."c202" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c203" operator(pg_catalog.=) "n"."c203" or "o"."c203" is null and "n"."c203" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c204" operator(pg_catalog.=) "n"."c204" or "o"."c204" is null and "n"."c204" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c205" operator(pg_catalog.=) "n"."c205" or "o"."c205" is null and "n"."c205" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c206" operator(pg_catalog.=) "n"."c206" or "o"."c206" is null and "n"."c206" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c207" operator(pg_catalog.=) "n"."c207" or "o"."c207" is null and "n"."c207" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c208" operator(pg_catalog.=) "n"."c208" or "o"."c208" is null and "n"."c208" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c209" operator(pg_catalog.=) "n"."c209" or "o"."c209" is null and "n"."c209" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c210" operator(pg_catalog.=) "n"."c210" or "o"."c210" is null and "n"."c210" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c211" operator(pg_catalog.=) "n"."c211" or "o"."c211" is null and "n"."c211" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c212" operator(pg_catalog.=) "n"."c212" or "o"."c212" is null and "n"."c212" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c213" operator(pg_catalog.=) "n"."c213" or "o"."c213" is null and "n"."c213" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c214" operator(pg_catalog.=) "n"."c214" or "o"."c214" is null and "n"."c214" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c215" operator(pg_catalog.=) "n"."c215" or "o"."c215" is null and "n"."c215" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c216" operator(pg_catalog.=) "n"."c216" or "o"."c216" is null and "n"."c216" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c217" operator(pg_catalog.=) "n"."c217" or "o"."c217" is null and "n"."c217" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c218" operator(pg_catalog.=) "n"."c218" or "o"."c218" is null and "n"."c218" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c219" operator(pg_catalog.=) "n"."c219" or "o"."c219" is null and "n"."c219" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c220" operator(pg_catalog.=) "n"."c220" or "o"."c220" is null and "n"."c220" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c221" operator(pg_catalog.=) "n"."c221" or "o"."c221" is null and "n"."c221" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c222" operator(pg_catalog.=) "n"."c222" or "o"."c222" is null and "n"."c222" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c223" operator(pg_catalog.=) "n"."c223" or "o"."c223" is null and "n"."c223" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c224" operator(pg_catalog.=) "n"."c224" or "o"."c224" is null and "n"."c224" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c225" operator(pg_catalog.=) "n"."c225" or "o"."c225" is null and "n"."c225" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c226" operator(pg_catalog.=) "n"."c226" or "o"."c226" is null and "n"."c226" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c227" operator(pg_catalog.=) "n"."c227" or "o"."c227" is null and "n"."c227" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c228" operator(pg_catalog.=) "n"."c228" or "o"."c228" is null and "n"."c228" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c229" operator(pg_catalog.=) "n"."c229" or "o"."c229" is null and "n"."c229" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c230" operator(pg_catalog.=) "n"."c230" or "o"."c230" is null and "n"."c230" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c231" operator(pg_catalog.=) "n"."c231" or "o"."c231" is null and "n"."c231" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c232" operator(pg_catalog.=) "n"."c232" or "o"."c232" is null and "n"."c232" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c233" operator(pg_catalog.=) "n"."c233" or "o"."c233" is null and "n"."c233" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c234" operator(pg_catalog.=) "n"."c234" or "o"."c234" is null and "n"."c234" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c235" operator(pg_catalog.=) "n"."c235" or "o"."c235" is null and "n"."c235" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c236" operator(pg_catalog.=) "n"."c236" or "o"."c236" is null and "n"."c236" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c237" operator(pg_catalog.=) "n"."c237" or "o"."c237" is null and "n"."c237" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c238" operator(pg_catalog.=) "n"."c238" or "o"."c238" is null and "n"."c238" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c239" operator(pg_catalog.=) "n"."c239" or "o"."c239" is null and "n"."c239" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c240" operator(pg_catalog.=) "n"."c240" or "o"."c240" is null and "n"."c240" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c241" operator(pg_catalog.=) "n"."c241" or "o"."c241" is null and "n"."c241" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c242" operator(pg_catalog.=) "n"."c242" or "o"."c242" is null and "n"."c242" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c243" operator(pg_catalog.=) "n"."c243" or "o"."c243" is null and "n"."c243" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c244" operator(pg_catalog.=) "n"."c244" or "o"."c244" is null and "n"."c244" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c245" operator(pg_catalog.=) "n"."c245" or "o"."c245" is null and "n"."c245" is null)) is not true) then 1::int8 else 0 end,
            case when bool_or((("o"."c246" operator(pg_catalog.=) "n"."c246" or "o"."c246" is null and "n"."c246" is null)) is not true) then 1::int8 else 0 end]
    from inserted as n join deleted as o on o."rowguid" operator(pg_catalog.=) n."rowguid"
    group by n."rowguid"
    on conflict (rowguid) do update
    set xid = excluded.xid, gone = false, own = m.top + 1, top = m.top + 1,
        colv = array[case excluded.colv[1] when 1 then m.top + 1 else coalesce(m.colv[1], 0) end,
            case excluded.colv[2] when 1 then m.top + 1 else coalesce(m.colv[2], 0) end,
            case excluded.colv[3] when 1 then m.top + 1 else coalesce(m.colv[3], 0) end,
            case excluded.colv[4] when 1 then m.top + 1 else coalesce(m.colv[4], 0) end,
            case excluded.colv[5] when 1 then m.top + 1 else coalesce(m.colv[5], 0) end,
            case excluded.colv[6] when 1 then m.top + 1 else coalesce(m.colv[6], 0) end,
            case excluded.colv[7] when 1 then m.top + 1 else coalesce(m.colv[7], 0) end,
            case excluded.colv[8] when 1 then m.top + 1 else coalesce(m.colv[8], 0) end,
            case excluded.colv[9] when 1 then m.top + 1 else coalesce(m.colv[9], 0) end,
            case excluded.colv[10] when 1 then m.top + 1 else coalesce(m.colv[10], 0) end,
            case excluded.colv[11] when 1 then m.top + 1 else coalesce(m.colv[11], 0) end,
            case excluded.colv[12] when 1 then m.top + 1 else coalesce(m.colv[12], 0) end,
            case excluded.colv[13] when 1 then m.top + 1 else coalesce(m.colv[13], 0) end,
            case excluded.colv[14] when 1 then m.top + 1 else coalesce(m.colv[14], 0) end,
            case excluded.colv[15] when 1 then m.top + 1 else coalesce(m.colv[15], 0) end,
            case excluded.colv[16] when 1 then m.top + 1 else coalesce(m.colv[16], 0) end,
            case excluded.colv[17] when 1 then m.top + 1 else coalesce(m.colv[17], 0) end,
            case excluded.colv[18] when 1 then m.top + 1 else coalesce(m.colv[18], 0) end,
            case excluded.colv[19] when 1 then m.top + 1 else coalesce(m.colv[19], 0) end,
            case excluded.colv[20] when 1 then m.top + 1 else coalesce(m.colv[20], 0) end,
            case excluded.colv[21] when 1 then m.top + 1 else coalesce(m.colv[21], 0) end,
            case excluded.colv[22] when 1 then m.top + 1 else coalesce(m.colv[22], 0) end,
            case excluded.colv[23] when 1 then m.top + 1 else coalesce(m.colv[23], 0) end,
            case excluded.colv[24] when 1 then m.top + 1 else coalesce(m.colv[24], 0) end,
            case excluded.colv[25] when 1 then m.top + 1 else coalesce(m.colv[25], 0) end,
            case excluded.colv[26] when 1 then m.top + 1 else coalesce(m.colv[26], 0) end,
            case excluded.colv[27] when 1 then m.top + 1 else coalesce(m.colv[27], 0) end,
            case excluded.colv[28] when 1 then m.top + 1 else coalesce(m.colv[28], 0) end,
            case excluded.colv[29] when 1 then m.top + 1 else coalesce(m.colv[29], 0) end,
            case excluded.colv[30] when 1 then m.top + 1 else coalesce(m.colv[30], 0) end,
            case excluded.colv[31] when 1 then m.top + 1 else coalesce(m.colv[31], 0) end,
            case excluded.colv[32] when 1 then m.top + 1 else coalesce(m.colv[32], 0) end,
            case excluded.colv[33] when 1 then m.top + 1 else coalesce(m.colv[33], 0) end,
            case excluded.colv[34] when 1 then m.top + 1 else coalesce(m.colv[34], 0) end,
            case excluded.colv[35] when 1 then m.top + 1 else coalesce(m.colv[35], 0) end,
            case excluded.colv[36] when 1 then m.top + 1 else coalesce(m.colv[36], 0) end,
            case excluded.colv[37] when 1 then m.top + 1 else coalesce(m.colv[37], 0) end,
            case excluded.colv[38] when 1 then m.top + 1 else coalesce(m.colv[38], 0) end,
            case excluded.colv[39] when 1 then m.top + 1 else coalesce(m.colv[39], 0) end,
            case excluded.colv[40] when 1 then m.top + 1 else coalesce(m.colv[40], 0) end,
            case excluded.colv[41] when 1 then m.top + 1 else coalesce(m.colv[41], 0) end,
            case excluded.colv[42] when 1 then m.top + 1 else coalesce(m.colv[42], 0) end,
            case excluded.colv[43] when 1 then m.top + 1 else coalesce(m.colv[43], 0) end,
            case excluded.colv[44] when 1 then m.top + 1 else coalesce(m.colv[44], 0) end,
            case excluded.colv[45] when 1 then m.top + 1 else coalesce(m.colv[45], 0) end,
            case excluded.colv[46] when 1 then m.top + 1 else coalesce(m.colv[46], 0) end,
            case excluded.colv[47] when 1 then m.top + 1 else coalesce(m.colv[47], 0) end,
            case excluded.colv[48] when 1 then m.top + 1 else coalesce(m.colv[48], 0) end,
            case excluded.colv[49] when 1 then m.top + 1 else coalesce(m.colv[49], 0) end,
            case excluded.colv[50] when 1 then m.top + 1 else coalesce(m.colv[50], 0) end,
            case excluded.colv[51] when 1 then m.top + 1 else coalesce(m.colv[51], 0) end,
            case excluded.colv[52] when 1 then m.top + 1 else coalesce(m.colv[52], 0) end,
            case excluded.colv[53] when 1 then m.top + 1 else coalesce(m.colv[53], 0) end,
            case excluded.colv[54] when 1 then m.top + 1 else coalesce(m.colv[54], 0) end,
            case excluded.colv[55] when 1 then m.top + 1 else coalesce(m.colv[55], 0) end,
            case excluded.colv[56] when 1 then m.top + 1 else coalesce(m.colv[56], 0) end,
            case excluded.colv[57] when 1 then m.top + 1 else coalesce(m.colv[57], 0) end,
            case excluded.colv[58] when 1 then m.top + 1 else coalesce(m.colv[58], 0) end,
            case excluded.colv[59] when 1 then m.top + 1 else coalesce(m.colv[59], 0) end,
            case excluded.colv[60] when 1 then m.top + 1 else coalesce(m.colv[60], 0) end,
            case excluded.colv[61] when 1 then m.top + 1 else coalesce(m.colv[61], 0) end,
            case excluded.colv[62] when 1 then m.top + 1 else coalesce(m.colv[62], 0) end,
            case excluded.colv[63] when 1 then m.top + 1 else coalesce(m.colv[63], 0) end,
            case excluded.colv[64] when 1 then m.top + 1 else coalesce(m.colv[64], 0) end,
            case excluded.colv[65] when 1 then m.top + 1 else coalesce(m.colv[65], 0) end,
            case excluded.colv[66] when 1 then m.top + 1 else coalesce(m.colv[66], 0) end,
            case excluded.colv[67] when 1 then m.top + 1 else coalesce(m.colv[67], 0) end,
            case excluded.colv[68] when 1 then m.top + 1 else coalesce(m.colv[68], 0) end,
            case excluded.colv[69] when 1 then m.top + 1 else coalesce(m.colv[69], 0) end,
            case excluded.colv[70] when 1 then m.top + 1 else coalesce(m.colv[70], 0) end,
            case excluded.colv[71] when 1 then m.top + 1 else coalesce(m.colv[71], 0) end,
            case excluded.colv[72] when 1 then m.top + 1 else coalesce(m.colv[72], 0) end,
            case excluded.colv[73] when 1 then m.top + 1 else coalesce(m.colv[73], 0) end,
            case excluded.colv[74] when 1 then m.top + 1 else coalesce(m.colv[74], 0) end,
            case excluded.colv[75] when 1 then m.top + 1 else coalesce(m.colv[75], 0) end,
            case excluded.colv[76] when 1 then m.top + 1 else coalesce(m.colv[76], 0) end,
            case excluded.colv[77] when 1 then m.top + 1 else coalesce(m.colv[77], 0) end,
            case excluded.colv[78] when 1 then m.top + 1 else coalesce(m.colv[78], 0) end,
            case excluded.colv[79] when 1 then m.top + 1 else coalesce(m.colv[79], 0) end,
            case excluded.colv[80] when 1 then m.top + 1 else coalesce(m.colv[80], 0) end,
            case excluded.colv[81] when 1 then m.top + 1 else coalesce(m.colv[81], 0) end,
            case excluded.colv[82] when 1 then m.top + 1 else coalesce(m.colv[82], 0) end,
            case excluded.colv[83] when 1 then m.top + 1 else coalesce(m.colv[83], 0) end,
            case excluded.colv[84] when 1 then m.top + 1 else coalesce(m.colv[84], 0) end,
            case excluded.colv[85] when 1 then m.top + 1 else coalesce(m.colv[85], 0) end,
            case excluded.colv[86] when 1 then m.top + 1 else coalesce(m.colv[86], 0) end,
            case excluded.colv[87] when 1 then m.top + 1 else coalesce(m.colv[87], 0) end,
            case excluded.colv[88] when 1 then m.top + 1 else coalesce(m.colv[88], 0) end,
            case excluded.colv[89] when 1 then m.top + 1 else coalesce(m.colv[89], 0) end,
            case excluded.colv[90] when 1 then m.top + 1 else coalesce(m.colv[90], 0) end,
            case excluded.colv[91] when 1 then m.top + 1 else coalesce(m.colv[91], 0) end,
            case excluded.colv[92] when 1 then m.top + 1 else coalesce(m.colv[92], 0) end,
            case excluded.colv[93] when 1 then m.top + 1 else coalesce(m.colv[93], 0) end,
            case excluded.colv[94] when 1 then m.top + 1 else coalesce(m.colv[94], 0) end,
            case excluded.colv[95] when 1 then m.top + 1 else coalesce(m.colv[95], 0) end,
            case excluded.colv[96] when 1 then m.top + 1 else coalesce(m.colv[96], 0) end,
            case excluded.colv[97] when 1 then m.top + 1 else coalesce(m.colv[97], 0) end,
            case excluded.colv[98] when 1 then m.top + 1 else coalesce(m.colv[98], 0) end,
            case excluded.colv[99] when 1 then m.top + 1 else coalesce(m.colv[99], 0) end,
            case excluded.colv[100] when 1 then m.top + 1 else coalesce(m.colv[100], 0) end,
            case excluded.colv[101] when 1 then m.top + 1 else coalesce(m.colv[101], 0) end,
            case excluded.colv[102] when 1 then m.top + 1 else coalesce(m.colv[102], 0) end,
            case excluded.colv[103] when 1 then m.top + 1 else coalesce(m.colv[103], 0) end,
            case excluded.colv[104] when 1 then m.top + 1 else coalesce(m.colv[104], 0) end,
            case excluded.colv[105] when 1 then m.top + 1 else coalesce(m.colv[105], 0) end,
            case excluded.colv[106] when 1 then m.top + 1 else coalesce(m.colv[106], 0) end,
            case excluded.colv[107] when 1 then m.top + 1 else coalesce(m.colv[107], 0) end,
            case excluded.colv[108] when 1 then m.top + 1 else coalesce(m.colv[108], 0) end,
            case excluded.colv[109] when 1 then m.top + 1 else coalesce(m.colv[109], 0) end,
            case excluded.colv[110] when 1 then m.top + 1 else coalesce(m.colv[110], 0) end,
            case excluded.colv[111] when 1 then m.top + 1 else coalesce(m.colv[111], 0) end,
            case excluded.colv[112] when 1 then m.top + 1 else coalesce(m.colv[112], 0) end,
            case excluded.colv[113] when 1 then m.top + 1 else coalesce(m.colv[113], 0) end,
            case excluded.colv[114] when 1 then m.top + 1 else coalesce(m.colv[114], 0) end,
            case excluded.colv[115] when 1 then m.top + 1 else coalesce(m.colv[115], 0) end,
            case excluded.colv[116] when 1 then m.top + 1 else coalesce(m.colv[116], 0) end,
            case excluded.colv[117] when 1 then m.top + 1 else coalesce(m.colv[117], 0) end,
            case excluded.colv[118] when 1 then m.top + 1 else coalesce(m.colv[118], 0) end,
            case excluded.colv[119] when 1 then m.top + 1 else coalesce(m.colv[119], 0) end,
            case excluded.colv[120] when 1 then m.top + 1 else coalesce(m.colv[120], 0) end,
            case excluded.colv[121] when 1 then m.top + 1 else coalesce(m.colv[121], 0) end,
            case excluded.colv[122] when 1 then m.top + 1 else coalesce(m.colv[122], 0) end,
            case excluded.colv[123] when 1 then m.top + 1 else coalesce(m.colv[123], 0) end,
            case excluded.colv[124] when 1 then m.top + 1 else coalesce(m.colv[124], 0) end,
            case excluded.colv[125] when 1 then m.top + 1 else coalesce(m.colv[125], 0) end,
            case excluded.colv[126] when 1 then m.top + 1 else coalesce(m.colv[126], 0) end,
            case excluded.colv[127] when 1 then m.top + 1 else coalesce(m.colv[127], 0) end,
            case excluded.colv[128] when 1 then m.top + 1 else coalesce(m.colv[128], 0) end,
            case excluded.colv[129] when 1 then m.top + 1 else coalesce(m.colv[129], 0) end,
            case excluded.colv[130] when 1 then m.top + 1 else coalesce(m.colv[130], 0) end,
            case excluded.colv[131] when 1 then m.top + 1 else coalesce(m.colv[131], 0) end,
            case excluded.colv[132] when 1 then m.top + 1 else coalesce(m.colv[132], 0) end,
            case excluded.colv[133] when 1 then m.top + 1 else coalesce(m.colv[133], 0) end,
            case excluded.colv[134] when 1 then m.top + 1 else coalesce(m.colv[134], 0) end,
            case excluded.colv[135] when 1 then m.top + 1 else coalesce(m.colv[135], 0) end,
            case excluded.colv[136] when 1 then m.top + 1 else coalesce(m.colv[136], 0) end,
            case excluded.colv[137] when 1 then m.top + 1 else coalesce(m.colv[137], 0) end,
            case excluded.colv[138] when 1 then m.top + 1 else coalesce(m.colv[138], 0) end,
            case excluded.colv[139] when 1 then m.top + 1 else coalesce(m.colv[139], 0) end,
            case excluded.colv[140] when 1 then m.top + 1 else coalesce(m.colv[140], 0) end,
            case excluded.colv[141] when 1 then m.top + 1 else coalesce(m.colv[141], 0) end,
            case excluded.colv[142] when 1 then m.top + 1 else coalesce(m.colv[142], 0) end,
            case excluded.colv[143] when 1 then m.top + 1 else coalesce(m.colv[143], 0) end,
            case excluded.colv[144] when 1 then m.top + 1 else coalesce(m.colv[144], 0) end,
            case excluded.colv[145] when 1 then m.top + 1 else coalesce(m.colv[145], 0) end,
            case excluded.colv[146] when 1 then m.top + 1 else coalesce(m.colv[146], 0) end,
            case excluded.colv[147] when 1 then m.top + 1 else coalesce(m.colv[147], 0) end,
            case excluded.colv[148] when 1 then m.top + 1 else coalesce(m.colv[148], 0) end,
            case excluded.colv[149] when 1 then m.top + 1 else coalesce(m.colv[149], 0) end,
            case excluded.colv[150] when 1 then m.top + 1 else coalesce(m.colv[150], 0) end,
            case excluded.colv[151] when 1 then m.top + 1 else coalesce(m.colv[151], 0) end,
            case excluded.colv[152] when 1 then m.top + 1 else coalesce(m.colv[152], 0) end,
            case excluded.colv[153] when 1 then m.top + 1 else coalesce(m.colv[153], 0) end,
            case excluded.colv[154] when 1 then m.top + 1 else coalesce(m.colv[154], 0) end,
            case excluded.colv[155] when 1 then m.top + 1 else coalesce(m.colv[155], 0) end,
            case excluded.colv[156] when 1 then m.top + 1 else coalesce(m.colv[156], 0) end,
            case excluded.colv[157] when 1 then m.top + 1 else coalesce(m.colv[157], 0) end,
            case excluded.colv[158] when 1 then m.top + 1 else coalesce(m.colv[158], 0) end,
            case excluded.colv[159] when 1 then m.top + 1 else coalesce(m.colv[159], 0) end,
            case excluded.colv[160] when 1 then m.top + 1 else coalesce(m.colv[160], 0) end,
            case excluded.colv[161] when 1 then m.top + 1 else coalesce(m.colv[161], 0) end,
            case excluded.colv[162] when 1 then m.top + 1 else coalesce(m.colv[162], 0) end,
            case excluded.colv[163] when 1 then m.top + 1 else coalesce(m.colv[163], 0) end,
            case excluded.colv[164] when 1 then m.top + 1 else coalesce(m.colv[164], 0) end,
            case excluded.colv[165] when 1 then m.top + 1 else coalesce(m.colv[165], 0) end,
            case excluded.colv[166] when 1 then m.top + 1 else coalesce(m.colv[166], 0) end,
            case excluded.colv[167] when 1 then m.top + 1 else coalesce(m.colv[167], 0) end,
            case excluded.colv[168] when 1 then m.top + 1 else coalesce(m.colv[168], 0) end,
            case excluded.colv[169] when 1 then m.top + 1 else coalesce(m.colv[169], 0) end,
            case excluded.colv[170] when 1 then m.top + 1 else coalesce(m.colv[170], 0) end,
            case excluded.colv[171] when 1 then m.top + 1 else coalesce(m.colv[171], 0) end,
            case excluded.colv[172] when 1 then m.top + 1 else coalesce(m.colv[172], 0) end,
            case excluded.colv[173] when 1 then m.top + 1 else coalesce(m.colv[173], 0) end,
            case excluded.colv[174] when 1 then m.top + 1 else coalesce(m.colv[174], 0) end,
            case excluded.colv[175] when 1 then m.top + 1 else coalesce(m.colv[175], 0) end,
            case excluded.colv[176] when 1 then m.top + 1 else coalesce(m.colv[176], 0) end,
            case excluded.colv[177] when 1 then m.top + 1 else coalesce(m.colv[177], 0) end,
            case excluded.colv[178] when 1 then m.top + 1 else coalesce(m.colv[178], 0) end,
            case excluded.colv[179] when 1 then m.top + 1 else coalesce(m.colv[179], 0) end,
            case excluded.colv[180] when 1 then m.top + 1 else coalesce(m.colv[180], 0) end,
            case excluded.colv[181] when 1 then m.top + 1 else coalesce(m.colv[181], 0) end,
            case excluded.colv[182] when 1 then m.top + 1 else coalesce(m.colv[182], 0) end,
            case excluded.colv[183] when 1 then m.top + 1 else coalesce(m.colv[183], 0) end,
            case excluded.colv[184] when 1 then m.top + 1 else coalesce(m.colv[184], 0) end,
            case excluded.colv[185] when 1 then m.top + 1 else coalesce(m.colv[185], 0) end,
            case excluded.colv[186] when 1 then m.top + 1 else coalesce(m.colv[186], 0) end,
            case excluded.colv[187] when 1 then m.top + 1 else coalesce(m.colv[187], 0) end,
            case excluded.colv[188] when 1 then m.top + 1 else coalesce(m.colv[188], 0) end,
            case excluded.colv[189] when 1 then m.top + 1 else coalesce(m.colv[189], 0) end,
            case excluded.colv[190] when 1 then m.top + 1 else coalesce(m.colv[190], 0) end,
            case excluded.colv[191] when 1 then m.top + 1 else coalesce(m.colv[191], 0) end,
            case excluded.colv[192] when 1 then m.top + 1 else coalesce(m.colv[192], 0) end,
            case excluded.colv[193] when 1 then m.top + 1 else coalesce(m.colv[193], 0) end,
            case excluded.colv[194] when 1 then m.top + 1 else coalesce(m.colv[194], 0) end,
            case excluded.colv[195] when 1 then m.top + 1 else coalesce(m.colv[195], 0) end,
            case excluded.colv[196] when 1 then m.top + 1 else coalesce(m.colv[196], 0) end,
            case excluded.colv[197] when 1 then m.top + 1 else coalesce(m.colv[197], 0) end,
            case excluded.colv[198] when 1 then m.top + 1 else coalesce(m.colv[198], 0) end,
            case excluded.colv[199] when 1 then m.top + 1 else coalesce(m.colv[199], 0) end,
            case excluded.colv[200] when 1 then m.top + 1 else coalesce(m.colv[200], 0) end,
            case excluded.colv[201] when 1 then m.top + 1 else coalesce(m.colv[201], 0) end,
            case excluded.colv[202] when 1 then m.top + 1 else coalesce(m.colv[202], 0) end,
            case excluded.colv[203] when 1 then m.top + 1 else coalesce(m.colv[203], 0) end,
            case excluded.colv[204] when 1 then m.top + 1 else coalesce(m.colv[204], 0) end,
            case excluded.colv[205] when 1 then m.top + 1 else coalesce(m.colv[205], 0) end,
            case excluded.colv[206] when 1 then m.top + 1 else coalesce(m.colv[206], 0) end,
            case excluded.colv[207] when 1 then m.top + 1 else coalesce(m.colv[207], 0) end,
            case excluded.colv[208] when 1 then m.top + 1 else coalesce(m.colv[208], 0) end,
            case excluded.colv[209] when 1 then m.top + 1 else coalesce(m.colv[209], 0) end,
            case excluded.colv[210] when 1 then m.top + 1 else coalesce(m.colv[210], 0) end,
            case excluded.colv[211] when 1 then m.top + 1 else coalesce(m.colv[211], 0) end,
            case excluded.colv[212] when 1 then m.top + 1 else coalesce(m.colv[212], 0) end,
            case excluded.colv[213] when 1 then m.top + 1 else coalesce(m.colv[213], 0) end,
            case excluded.colv[214] when 1 then m.top + 1 else coalesce(m.colv[214], 0) end,
            case excluded.colv[215] when 1 then m.top + 1 else coalesce(m.colv[215], 0) end,
            case excluded.colv[216] when 1 then m.top + 1 else coalesce(m.colv[216], 0) end,
            case excluded.colv[217] when 1 then m.top + 1 else coalesce(m.colv[217], 0) end,
            case excluded.colv[218] when 1 then m.top + 1 else coalesce(m.colv[218], 0) end,
            case excluded.colv[219] when 1 then m.top + 1 else coalesce(m.colv[219], 0) end,
            case excluded.colv[220] when 1 then m.top + 1 else coalesce(m.colv[220], 0) end,
            case excluded.colv[221] when 1 then m.top + 1 else coalesce(m.colv[221], 0) end,
            case excluded.colv[222] when 1 then m.top + 1 else coalesce(m.colv[222], 0) end,
            case excluded.colv[223] when 1 then m.top + 1 else coalesce(m.colv[223], 0) end,
            case excluded.colv[224] when 1 then m.top + 1 else coalesce(m.colv[224], 0) end,
            case excluded.colv[225] when 1 then m.top + 1 else coalesce(m.colv[225], 0) end,
            case excluded.colv[226] when 1 then m.top + 1 else coalesce(m.colv[226], 0) end,
            case excluded.colv[227] when 1 then m.top + 1 else coalesce(m.colv[227], 0) end,
            case excluded.colv[228] when 1 then m.top + 1 else coalesce(m.colv[228], 0) end,
            case excluded.colv[229] when 1 then m.top + 1 else coalesce(m.colv[229], 0) end,
            case excluded.colv[230] when 1 then m.top + 1 else coalesce(m.colv[230], 0) end,
            case excluded.colv[231] when 1 then m.top + 1 else coalesce(m.colv[231], 0) end,
            case excluded.colv[232] when 1 then m.top + 1 else coalesce(m.colv[232], 0) end,
            case excluded.colv[233] when 1 then m.top + 1 else coalesce(m.colv[233], 0) end,
            case excluded.colv[234] when 1 then m.top + 1 else coalesce(m.colv[234], 0) end,
            case excluded.colv[235] when 1 then m.top + 1 else coalesce(m.colv[235], 0) end,
            case excluded.colv[236] when 1 then m.top + 1 else coalesce(m.colv[236], 0) end,
            case excluded.colv[237] when 1 then m.top + 1 else coalesce(m.colv[237], 0) end,
            case excluded.colv[238] when 1 then m.top + 1 else coalesce(m.colv[238], 0) end,
            case excluded.colv[239] when 1 then m.top + 1 else coalesce(m.colv[239], 0) end,
            case excluded.colv[240] when 1 then m.top + 1 else coalesce(m.colv[240], 0) end,
            case excluded.colv[241] when 1 then m.top + 1 else coalesce(m.colv[241], 0) end,
            case excluded.colv[242] when 1 then m.top + 1 else coalesce(m.colv[242], 0) end,
            case excluded.colv[243] when 1 then m.top + 1 else coalesce(m.colv[243], 0) end,
            case excluded.colv[244] when 1 then m.top + 1 else coalesce(m.colv[244], 0) end,
            case excluded.colv[245] when 1 then m.top + 1 else coalesce(m.colv[245], 0) end,
            case excluded.colv[246] when 1 then m.top + 1 else coalesce(m.colv[246], 0) end],
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
