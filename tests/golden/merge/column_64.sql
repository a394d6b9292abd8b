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
    select 7, n."rowguid", pg_current_xact_id(), false, 1, 1, array_fill(1::int8, array[64])
    from inserted as n
    on conflict (rowguid) do update
    set xid = excluded.xid, gone = false, own = m.top + 1, top = m.top + 1, colv = array_fill((m.top + 1)::int8, array[64]),
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
            case when bool_or((("o"."c64" operator(pg_catalog.=) "n"."c64" or "o"."c64" is null and "n"."c64" is null)) is not true) then 1::int8 else 0 end]
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
            case excluded.colv[64] when 1 then m.top + 1 else coalesce(m.colv[64], 0) end],
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
