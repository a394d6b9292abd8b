-- msrepl.call_<article>_<operation>, msrepl.image_<article>, msrepl.key_<article>: what a call carries.
-- called by: msrepl.apply_<article>_<operation>, and procedures with more parameters than PostgreSQL passes
-- tables:    none
-- holes:     type, attributes, owner, agent, comment
create type "msrepl"."call_7_ins" as ("c1" integer, "c2" integer, "c3" integer, "c4" integer, "c5" integer, "c6" integer, "c7" integer, "c8" integer, "c9" integer, "c10" integer, "c11" integer, "c12" integer, "c13" integer, "c14" integer, "c15" integer, "c16" integer, "c17" integer, "c18" integer, "c19" integer, "c20" integer, "c21" integer, "c22" integer, "c23" integer, "c24" integer, "c25" integer, "c26" integer, "c27" integer, "c28" integer, "c29" integer, "c30" integer, "c31" integer, "c32" integer, "c33" integer, "c34" integer, "c35" integer, "c36" integer, "c37" integer, "c38" integer, "c39" integer, "c40" integer, "c41" integer, "c42" integer, "c43" integer, "c44" integer, "c45" integer, "c46" integer, "c47" integer, "c48" integer, "c49" integer, "c50" integer, "c51" integer, "c52" integer, "c53" integer, "c54" integer, "c55" integer, "c56" integer, "c57" integer, "c58" integer, "c59" integer, "c60" integer, "c61" integer, "c62" integer, "c63" integer, "c64" integer, "c65" integer, "c66" integer, "c67" integer, "c68" integer, "c69" integer, "c70" integer, "c71" integer, "c72" integer, "c73" integer, "c74" integer, "c75" integer, "c76" integer, "c77" integer, "c78" integer, "c79" integer, "c80" integer, "c81" integer, "c82" integer, "c83" integer, "c84" integer, "c85" integer, "c86" integer, "c87" integer, "c88" integer, "c89" integer, "c90" integer, "c91" integer, "c92" integer, "c93" integer, "c94" integer, "c95" integer, "c96" integer, "c97" integer, "c98" integer, "c99" integer, "c100" integer);
alter type "msrepl"."call_7_ins" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."call_7_ins" from public;
grant usage on type "msrepl"."call_7_ins" to "msrepl_agent_0123456789ab";
comment on type "msrepl"."call_7_ins" is 'Values of a command for INSERT in wide';

-- msrepl.call_<article>_<operation>, msrepl.image_<article>, msrepl.key_<article>: what a call carries.
-- called by: msrepl.apply_<article>_<operation>, and procedures with more parameters than PostgreSQL passes
-- tables:    none
-- holes:     type, attributes, owner, agent, comment
create type "msrepl"."call_7_upd" as ("c1" integer, "c2" integer, "c3" integer, "c4" integer, "c5" integer, "c6" integer, "c7" integer, "c8" integer, "c9" integer, "c10" integer, "c11" integer, "c12" integer, "c13" integer, "c14" integer, "c15" integer, "c16" integer, "c17" integer, "c18" integer, "c19" integer, "c20" integer, "c21" integer, "c22" integer, "c23" integer, "c24" integer, "c25" integer, "c26" integer, "c27" integer, "c28" integer, "c29" integer, "c30" integer, "c31" integer, "c32" integer, "c33" integer, "c34" integer, "c35" integer, "c36" integer, "c37" integer, "c38" integer, "c39" integer, "c40" integer, "c41" integer, "c42" integer, "c43" integer, "c44" integer, "c45" integer, "c46" integer, "c47" integer, "c48" integer, "c49" integer, "c50" integer, "c51" integer, "c52" integer, "c53" integer, "c54" integer, "c55" integer, "c56" integer, "c57" integer, "c58" integer, "c59" integer, "c60" integer, "c61" integer, "c62" integer, "c63" integer, "c64" integer, "c65" integer, "c66" integer, "c67" integer, "c68" integer, "c69" integer, "c70" integer, "c71" integer, "c72" integer, "c73" integer, "c74" integer, "c75" integer, "c76" integer, "c77" integer, "c78" integer, "c79" integer, "c80" integer, "c81" integer, "c82" integer, "c83" integer, "c84" integer, "c85" integer, "c86" integer, "c87" integer, "c88" integer, "c89" integer, "c90" integer, "c91" integer, "c92" integer, "c93" integer, "c94" integer, "c95" integer, "c96" integer, "c97" integer, "c98" integer, "c99" integer, "c100" integer, "pkc1" integer, "bitmap" bytea);
alter type "msrepl"."call_7_upd" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."call_7_upd" from public;
grant usage on type "msrepl"."call_7_upd" to "msrepl_agent_0123456789ab";
comment on type "msrepl"."call_7_upd" is 'Values of a command for UPDATE in wide';

-- msrepl.call_<article>_<operation>, msrepl.image_<article>, msrepl.key_<article>: what a call carries.
-- called by: msrepl.apply_<article>_<operation>, and procedures with more parameters than PostgreSQL passes
-- tables:    none
-- holes:     type, attributes, owner, agent, comment
create type "msrepl"."call_7_del" as ("pkc1" integer);
alter type "msrepl"."call_7_del" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."call_7_del" from public;
grant usage on type "msrepl"."call_7_del" to "msrepl_agent_0123456789ab";
comment on type "msrepl"."call_7_del" is 'Values of a command for DELETE in wide';

-- msrepl.call_<article>_<operation>, msrepl.image_<article>, msrepl.key_<article>: what a call carries.
-- called by: msrepl.apply_<article>_<operation>, and procedures with more parameters than PostgreSQL passes
-- tables:    none
-- holes:     type, attributes, owner, agent, comment
create type "msrepl"."image_7" as ("c1" integer, "c2" integer, "c3" integer, "c4" integer, "c5" integer, "c6" integer, "c7" integer, "c8" integer, "c9" integer, "c10" integer, "c11" integer, "c12" integer, "c13" integer, "c14" integer, "c15" integer, "c16" integer, "c17" integer, "c18" integer, "c19" integer, "c20" integer, "c21" integer, "c22" integer, "c23" integer, "c24" integer, "c25" integer, "c26" integer, "c27" integer, "c28" integer, "c29" integer, "c30" integer, "c31" integer, "c32" integer, "c33" integer, "c34" integer, "c35" integer, "c36" integer, "c37" integer, "c38" integer, "c39" integer, "c40" integer, "c41" integer, "c42" integer, "c43" integer, "c44" integer, "c45" integer, "c46" integer, "c47" integer, "c48" integer, "c49" integer, "c50" integer, "c51" integer, "c52" integer, "c53" integer, "c54" integer, "c55" integer, "c56" integer, "c57" integer, "c58" integer, "c59" integer, "c60" integer, "c61" integer, "c62" integer, "c63" integer, "c64" integer, "c65" integer, "c66" integer, "c67" integer, "c68" integer, "c69" integer, "c70" integer, "c71" integer, "c72" integer, "c73" integer, "c74" integer, "c75" integer, "c76" integer, "c77" integer, "c78" integer, "c79" integer, "c80" integer, "c81" integer, "c82" integer, "c83" integer, "c84" integer, "c85" integer, "c86" integer, "c87" integer, "c88" integer, "c89" integer, "c90" integer, "c91" integer, "c92" integer, "c93" integer, "c94" integer, "c95" integer, "c96" integer, "c97" integer, "c98" integer, "c99" integer, "c100" integer);
alter type "msrepl"."image_7" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."image_7" from public;
grant usage on type "msrepl"."image_7" to "msrepl_agent_0123456789ab";
comment on type "msrepl"."image_7" is 'A row of wide, or its original key, as one argument';

-- msrepl.call_<article>_<operation>, msrepl.image_<article>, msrepl.key_<article>: what a call carries.
-- called by: msrepl.apply_<article>_<operation>, and procedures with more parameters than PostgreSQL passes
-- tables:    none
-- holes:     type, attributes, owner, agent, comment
create type "msrepl"."key_7" as ("pkc1" integer);
alter type "msrepl"."key_7" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."key_7" from public;
grant usage on type "msrepl"."key_7" to "msrepl_agent_0123456789ab";
comment on type "msrepl"."key_7" is 'A row of wide, or its original key, as one argument';

-- The role that writes one published or subscribed table: in whose name its owner's expressions and triggers run.
-- called by: twopc.publisher.making, twopc.subscriber.subscription, twopc.subscriber.propagation
-- tables:    none
-- holes:     role, role_text, schema, table_schema, table, privileges, comment
--
-- It owns the functions that write this table for us, and may do nothing else: who owns a table of ours may put
-- code of his own into its constraints, indexes, domains, defaults and triggers.
do $msrepl$
begin
    if not exists (select from pg_roles where rolname = 'msrepl_table_c268110370c2_47ec0b9e1ffa') then
        create role "msrepl_table_c268110370c2_47ec0b9e1ffa" nologin;
        comment on role "msrepl_table_c268110370c2_47ec0b9e1ffa" is 'Writes wide for replication';
    end if;
end
$msrepl$;
grant usage on schema "msrepl", "public" to "msrepl_table_c268110370c2_47ec0b9e1ffa";
grant select, insert, update, delete on "public"."wide" to "msrepl_table_c268110370c2_47ec0b9e1ffa";

-- What the role of a subscribed table needs besides the table, so that agents' commands are applied in its name.
-- called by: twopc.subscriber.propagation
-- tables:    msrepl.msreplication_procedures
-- holes:     role, calls, agent_text
--
-- Whoever lets agents past row security lets this role, which has no other table.
grant execute on function msrepl.is_default_procedure(integer, text), msrepl.fires_for_agents(regclass) to "msrepl_table_c268110370c2_47ec0b9e1ffa";
grant execute on function msrepl.raise_unfit_call(text, text, text, text, text) to "msrepl_table_c268110370c2_47ec0b9e1ffa";
grant select on msrepl.msreplication_procedures to "msrepl_table_c268110370c2_47ec0b9e1ffa";
grant "msrepl_table_c268110370c2_47ec0b9e1ffa" to "msrepl_table_c268110370c2_calls";
do $msrepl$
begin
    if (select r.rolbypassrls from pg_catalog.pg_roles as r where r.rolname = 'msrepl_agent_0123456789ab') then
        alter role "msrepl_table_c268110370c2_47ec0b9e1ffa" bypassrls;
    end if;
end
$msrepl$;

-- sp_msins_<table>: brings a row that was inserted at the Publisher.
-- called by: msrepl.apply_<article>_ins
-- tables:    the subscribed table
-- holes:     procedure, parameters, table, columns, overriding, values, computed, signature, owner, caller, comment
--
-- No search_path is set, since that costs a tenth of a call: the agent's session has ours. Every parameter is
-- one whatever the columns are called, and the rights are those of the caller, the table's role.
create function "public"."sp_msins_wide"(
    c1 integer,
    c2 integer,
    c3 integer,
    c4 integer,
    c5 integer,
    c6 integer,
    c7 integer,
    c8 integer,
    c9 integer,
    c10 integer,
    c11 integer,
    c12 integer,
    c13 integer,
    c14 integer,
    c15 integer,
    c16 integer,
    c17 integer,
    c18 integer,
    c19 integer,
    c20 integer,
    c21 integer,
    c22 integer,
    c23 integer,
    c24 integer,
    c25 integer,
    c26 integer,
    c27 integer,
    c28 integer,
    c29 integer,
    c30 integer,
    c31 integer,
    c32 integer,
    c33 integer,
    c34 integer,
    c35 integer,
    c36 integer,
    c37 integer,
    c38 integer,
    c39 integer,
    c40 integer,
    c41 integer,
    c42 integer,
    c43 integer,
    c44 integer,
    c45 integer,
    c46 integer,
    c47 integer,
    c48 integer,
    c49 integer,
    c50 integer,
    c51 integer,
    c52 integer,
    c53 integer,
    c54 integer,
    c55 integer,
    c56 integer,
    c57 integer,
    c58 integer,
    c59 integer,
    c60 integer,
    c61 integer,
    c62 integer,
    c63 integer,
    c64 integer,
    c65 integer,
    c66 integer,
    c67 integer,
    c68 integer,
    c69 integer,
    c70 integer,
    c71 integer,
    c72 integer,
    c73 integer,
    c74 integer,
    c75 integer,
    c76 integer,
    c77 integer,
    c78 integer,
    c79 integer,
    c80 integer,
    c81 integer,
    c82 integer,
    c83 integer,
    c84 integer,
    c85 integer,
    c86 integer,
    c87 integer,
    c88 integer,
    c89 integer,
    c90 integer,
    c91 integer,
    c92 integer,
    c93 integer,
    c94 integer,
    c95 integer,
    c96 integer,
    c97 integer,
    c98 integer,
    c99 integer,
    c100 integer) returns void
language plpgsql
as $msrepl$
#variable_conflict use_variable
begin
    insert into "public"."wide" as t ("col1", "col2", "col3", "col4", "col5", "col6", "col7", "col8", "col9", "col10", "col11", "col12", "col13", "col14", "col15", "col16", "col17", "col18", "col19", "col20", "col21", "col22", "col23", "col24", "col25", "col26", "col27", "col28", "col29", "col30", "col31", "col32", "col33", "col34", "col35", "col36", "col37", "col38", "col39", "col40", "col41", "col42", "col43", "col44", "col45", "col46", "col47", "col48", "col49", "col50", "col51", "col52", "col53", "col54", "col55", "col56", "col57", "col58", "col59", "col60", "col61", "col62", "col63", "col64", "col65", "col66", "col67", "col68", "col69", "col70", "col71", "col72", "col73", "col74", "col75", "col76", "col77", "col78", "col79", "col80", "col81", "col82", "col83", "col84", "col85", "col86", "col87", "col88", "col89", "col90", "col91", "col92", "col93", "col94", "col95", "col96", "col97", "col98", "col99", "col100")
    values (c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, c16, c17, c18, c19, c20, c21, c22, c23, c24, c25, c26, c27, c28, c29, c30, c31, c32, c33, c34, c35, c36, c37, c38, c39, c40, c41, c42, c43, c44, c45, c46, c47, c48, c49, c50, c51, c52, c53, c54, c55, c56, c57, c58, c59, c60, c61, c62, c63, c64, c65, c66, c67, c68, c69, c70, c71, c72, c73, c74, c75, c76, c77, c78, c79, c80, c81, c82, c83, c84, c85, c86, c87, c88, c89, c90, c91, c92, c93, c94, c95, c96, c97, c98, c99, c100);
end
$msrepl$;
alter function "public"."sp_msins_wide"(integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer) owner to "purchasing";
revoke all on function "public"."sp_msins_wide"(integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer) from public;
grant execute on function "public"."sp_msins_wide"(integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer) to "msrepl_table_c268110370c2_47ec0b9e1ffa";
comment on function "public"."sp_msins_wide"(integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer) is 'Brings INSERT of wide from the Publisher (CALL)';

-- sp_msupd_<table>, SCALL and MCALL: sets the columns whose bit is set.
-- called by: msrepl.apply_<article>_upd
-- tables:    the subscribed table
-- holes:     procedure, parameters, bytes, guard, key_changed, with_key, without_key, command, article, key_json,
--            computed, signature, owner, caller, comment
--
-- Key columns stand in the statement only if one of their bits is set, as in the original's newer procedures.
-- No search_path is set: see sp_msins_<table>.
create function "public"."sp_msupd_wide"(new_row "msrepl"."image_7" default null, original_key "msrepl"."key_7" default null, bitmap bytea default null) returns void
language plpgsql
as $msrepl$
#variable_conflict use_variable
declare
    byte1 constant integer := get_byte(bitmap, 0);
    byte2 constant integer := get_byte(bitmap, 1);
    byte3 constant integer := get_byte(bitmap, 2);
    byte4 constant integer := get_byte(bitmap, 3);
    byte5 constant integer := get_byte(bitmap, 4);
    byte6 constant integer := get_byte(bitmap, 5);
    byte7 constant integer := get_byte(bitmap, 6);
    byte8 constant integer := get_byte(bitmap, 7);
    byte9 constant integer := get_byte(bitmap, 8);
    byte10 constant integer := get_byte(bitmap, 9);
    byte11 constant integer := get_byte(bitmap, 10);
    byte12 constant integer := get_byte(bitmap, 11);
    byte13 constant integer := get_byte(bitmap, 12);
begin
    if byte1 & 1 <> 0 then
        update "public"."wide" as t set
            "col1" = case byte1 & 1 when 1 then new_row.c1 else t."col1" end,
            "col2" = case byte1 & 2 when 2 then new_row.c2 else t."col2" end,
            "col3" = case byte1 & 4 when 4 then new_row.c3 else t."col3" end,
            "col4" = case byte1 & 8 when 8 then new_row.c4 else t."col4" end,
            "col5" = case byte1 & 16 when 16 then new_row.c5 else t."col5" end,
            "col6" = case byte1 & 32 when 32 then new_row.c6 else t."col6" end,
            "col7" = case byte1 & 64 when 64 then new_row.c7 else t."col7" end,
            "col8" = case byte1 & 128 when 128 then new_row.c8 else t."col8" end,
            "col9" = case byte2 & 1 when 1 then new_row.c9 else t."col9" end,
            "col10" = case byte2 & 2 when 2 then new_row.c10 else t."col10" end,
            "col11" = case byte2 & 4 when 4 then new_row.c11 else t."col11" end,
            "col12" = case byte2 & 8 when 8 then new_row.c12 else t."col12" end,
            "col13" = case byte2 & 16 when 16 then new_row.c13 else t."col13" end,
            "col14" = case byte2 & 32 when 32 then new_row.c14 else t."col14" end,
            "col15" = case byte2 & 64 when 64 then new_row.c15 else t."col15" end,
            "col16" = case byte2 & 128 when 128 then new_row.c16 else t."col16" end,
            "col17" = case byte3 & 1 when 1 then new_row.c17 else t."col17" end,
            "col18" = case byte3 & 2 when 2 then new_row.c18 else t."col18" end,
            "col19" = case byte3 & 4 when 4 then new_row.c19 else t."col19" end,
            "col20" = case byte3 & 8 when 8 then new_row.c20 else t."col20" end,
            "col21" = case byte3 & 16 when 16 then new_row.c21 else t."col21" end,
            "col22" = case byte3 & 32 when 32 then new_row.c22 else t."col22" end,
            "col23" = case byte3 & 64 when 64 then new_row.c23 else t."col23" end,
            "col24" = case byte3 & 128 when 128 then new_row.c24 else t."col24" end,
            "col25" = case byte4 & 1 when 1 then new_row.c25 else t."col25" end,
            "col26" = case byte4 & 2 when 2 then new_row.c26 else t."col26" end,
            "col27" = case byte4 & 4 when 4 then new_row.c27 else t."col27" end,
            "col28" = case byte4 & 8 when 8 then new_row.c28 else t."col28" end,
            "col29" = case byte4 & 16 when 16 then new_row.c29 else t."col29" end,
            "col30" = case byte4 & 32 when 32 then new_row.c30 else t."col30" end,
            "col31" = case byte4 & 64 when 64 then new_row.c31 else t."col31" end,
            "col32" = case byte4 & 128 when 128 then new_row.c32 else t."col32" end,
            "col33" = case byte5 & 1 when 1 then new_row.c33 else t."col33" end,
            "col34" = case byte5 & 2 when 2 then new_row.c34 else t."col34" end,
            "col35" = case byte5 & 4 when 4 then new_row.c35 else t."col35" end,
            "col36" = case byte5 & 8 when 8 then new_row.c36 else t."col36" end,
            "col37" = case byte5 & 16 when 16 then new_row.c37 else t."col37" end,
            "col38" = case byte5 & 32 when 32 then new_row.c38 else t."col38" end,
            "col39" = case byte5 & 64 when 64 then new_row.c39 else t."col39" end,
            "col40" = case byte5 & 128 when 128 then new_row.c40 else t."col40" end,
            "col41" = case byte6 & 1 when 1 then new_row.c41 else t."col41" end,
            "col42" = case byte6 & 2 when 2 then new_row.c42 else t."col42" end,
            "col43" = case byte6 & 4 when 4 then new_row.c43 else t."col43" end,
            "col44" = case byte6 & 8 when 8 then new_row.c44 else t."col44" end,
            "col45" = case byte6 & 16 when 16 then new_row.c45 else t."col45" end,
            "col46" = case byte6 & 32 when 32 then new_row.c46 else t."col46" end,
            "col47" = case byte6 & 64 when 64 then new_row.c47 else t."col47" end,
            "col48" = case byte6 & 128 when 128 then new_row.c48 else t."col48" end,
            "col49" = case byte7 & 1 when 1 then new_row.c49 else t."col49" end,
            "col50" = case byte7 & 2 when 2 then new_row.c50 else t."col50" end,
            "col51" = case byte7 & 4 when 4 then new_row.c51 else t."col51" end,
            "col52" = case byte7 & 8 when 8 then new_row.c52 else t."col52" end,
            "col53" = case byte7 & 16 when 16 then new_row.c53 else t."col53" end,
            "col54" = case byte7 & 32 when 32 then new_row.c54 else t."col54" end,
            "col55" = case byte7 & 64 when 64 then new_row.c55 else t."col55" end,
            "col56" = case byte7 & 128 when 128 then new_row.c56 else t."col56" end,
            "col57" = case byte8 & 1 when 1 then new_row.c57 else t."col57" end,
            "col58" = case byte8 & 2 when 2 then new_row.c58 else t."col58" end,
            "col59" = case byte8 & 4 when 4 then new_row.c59 else t."col59" end,
            "col60" = case byte8 & 8 when 8 then new_row.c60 else t."col60" end,
            "col61" = case byte8 & 16 when 16 then new_row.c61 else t."col61" end,
            "col62" = case byte8 & 32 when 32 then new_row.c62 else t."col62" end,
            "col63" = case byte8 & 64 when 64 then new_row.c63 else t."col63" end,
            "col64" = case byte8 & 128 when 128 then new_row.c64 else t."col64" end,
            "col65" = case byte9 & 1 when 1 then new_row.c65 else t."col65" end,
            "col66" = case byte9 & 2 when 2 then new_row.c66 else t."col66" end,
            "col67" = case byte9 & 4 when 4 then new_row.c67 else t."col67" end,
            "col68" = case byte9 & 8 when 8 then new_row.c68 else t."col68" end,
            "col69" = case byte9 & 16 when 16 then new_row.c69 else t."col69" end,
            "col70" = case byte9 & 32 when 32 then new_row.c70 else t."col70" end,
            "col71" = case byte9 & 64 when 64 then new_row.c71 else t."col71" end,
            "col72" = case byte9 & 128 when 128 then new_row.c72 else t."col72" end,
            "col73" = case byte10 & 1 when 1 then new_row.c73 else t."col73" end,
            "col74" = case byte10 & 2 when 2 then new_row.c74 else t."col74" end,
            "col75" = case byte10 & 4 when 4 then new_row.c75 else t."col75" end,
            "col76" = case byte10 & 8 when 8 then new_row.c76 else t."col76" end,
            "col77" = case byte10 & 16 when 16 then new_row.c77 else t."col77" end,
            "col78" = case byte10 & 32 when 32 then new_row.c78 else t."col78" end,
            "col79" = case byte10 & 64 when 64 then new_row.c79 else t."col79" end,
            "col80" = case byte10 & 128 when 128 then new_row.c80 else t."col80" end,
            "col81" = case byte11 & 1 when 1 then new_row.c81 else t."col81" end,
            "col82" = case byte11 & 2 when 2 then new_row.c82 else t."col82" end,
            "col83" = case byte11 & 4 when 4 then new_row.c83 else t."col83" end,
            "col84" = case byte11 & 8 when 8 then new_row.c84 else t."col84" end,
            "col85" = case byte11 & 16 when 16 then new_row.c85 else t."col85" end,
            "col86" = case byte11 & 32 when 32 then new_row.c86 else t."col86" end,
            "col87" = case byte11 & 64 when 64 then new_row.c87 else t."col87" end,
            "col88" = case byte11 & 128 when 128 then new_row.c88 else t."col88" end,
            "col89" = case byte12 & 1 when 1 then new_row.c89 else t."col89" end,
            "col90" = case byte12 & 2 when 2 then new_row.c90 else t."col90" end,
            "col91" = case byte12 & 4 when 4 then new_row.c91 else t."col91" end,
            "col92" = case byte12 & 8 when 8 then new_row.c92 else t."col92" end,
            "col93" = case byte12 & 16 when 16 then new_row.c93 else t."col93" end,
            "col94" = case byte12 & 32 when 32 then new_row.c94 else t."col94" end,
            "col95" = case byte12 & 64 when 64 then new_row.c95 else t."col95" end,
            "col96" = case byte12 & 128 when 128 then new_row.c96 else t."col96" end,
            "col97" = case byte13 & 1 when 1 then new_row.c97 else t."col97" end,
            "col98" = case byte13 & 2 when 2 then new_row.c98 else t."col98" end,
            "col99" = case byte13 & 4 when 4 then new_row.c99 else t."col99" end,
            "col100" = case byte13 & 8 when 8 then new_row.c100 else t."col100" end
        where t."col1" operator(pg_catalog.=) original_key.pkc1;
    else
        update "public"."wide" as t set
            "col2" = case byte1 & 2 when 2 then new_row.c2 else t."col2" end,
            "col3" = case byte1 & 4 when 4 then new_row.c3 else t."col3" end,
            "col4" = case byte1 & 8 when 8 then new_row.c4 else t."col4" end,
            "col5" = case byte1 & 16 when 16 then new_row.c5 else t."col5" end,
            "col6" = case byte1 & 32 when 32 then new_row.c6 else t."col6" end,
            "col7" = case byte1 & 64 when 64 then new_row.c7 else t."col7" end,
            "col8" = case byte1 & 128 when 128 then new_row.c8 else t."col8" end,
            "col9" = case byte2 & 1 when 1 then new_row.c9 else t."col9" end,
            "col10" = case byte2 & 2 when 2 then new_row.c10 else t."col10" end,
            "col11" = case byte2 & 4 when 4 then new_row.c11 else t."col11" end,
            "col12" = case byte2 & 8 when 8 then new_row.c12 else t."col12" end,
            "col13" = case byte2 & 16 when 16 then new_row.c13 else t."col13" end,
            "col14" = case byte2 & 32 when 32 then new_row.c14 else t."col14" end,
            "col15" = case byte2 & 64 when 64 then new_row.c15 else t."col15" end,
            "col16" = case byte2 & 128 when 128 then new_row.c16 else t."col16" end,
            "col17" = case byte3 & 1 when 1 then new_row.c17 else t."col17" end,
            "col18" = case byte3 & 2 when 2 then new_row.c18 else t."col18" end,
            "col19" = case byte3 & 4 when 4 then new_row.c19 else t."col19" end,
            "col20" = case byte3 & 8 when 8 then new_row.c20 else t."col20" end,
            "col21" = case byte3 & 16 when 16 then new_row.c21 else t."col21" end,
            "col22" = case byte3 & 32 when 32 then new_row.c22 else t."col22" end,
            "col23" = case byte3 & 64 when 64 then new_row.c23 else t."col23" end,
            "col24" = case byte3 & 128 when 128 then new_row.c24 else t."col24" end,
            "col25" = case byte4 & 1 when 1 then new_row.c25 else t."col25" end,
            "col26" = case byte4 & 2 when 2 then new_row.c26 else t."col26" end,
            "col27" = case byte4 & 4 when 4 then new_row.c27 else t."col27" end,
            "col28" = case byte4 & 8 when 8 then new_row.c28 else t."col28" end,
            "col29" = case byte4 & 16 when 16 then new_row.c29 else t."col29" end,
            "col30" = case byte4 & 32 when 32 then new_row.c30 else t."col30" end,
            "col31" = case byte4 & 64 when 64 then new_row.c31 else t."col31" end,
            "col32" = case byte4 & 128 when 128 then new_row.c32 else t."col32" end,
            "col33" = case byte5 & 1 when 1 then new_row.c33 else t."col33" end,
            "col34" = case byte5 & 2 when 2 then new_row.c34 else t."col34" end,
            "col35" = case byte5 & 4 when 4 then new_row.c35 else t."col35" end,
            "col36" = case byte5 & 8 when 8 then new_row.c36 else t."col36" end,
            "col37" = case byte5 & 16 when 16 then new_row.c37 else t."col37" end,
            "col38" = case byte5 & 32 when 32 then new_row.c38 else t."col38" end,
            "col39" = case byte5 & 64 when 64 then new_row.c39 else t."col39" end,
            "col40" = case byte5 & 128 when 128 then new_row.c40 else t."col40" end,
            "col41" = case byte6 & 1 when 1 then new_row.c41 else t."col41" end,
            "col42" = case byte6 & 2 when 2 then new_row.c42 else t."col42" end,
            "col43" = case byte6 & 4 when 4 then new_row.c43 else t."col43" end,
            "col44" = case byte6 & 8 when 8 then new_row.c44 else t."col44" end,
            "col45" = case byte6 & 16 when 16 then new_row.c45 else t."col45" end,
            "col46" = case byte6 & 32 when 32 then new_row.c46 else t."col46" end,
            "col47" = case byte6 & 64 when 64 then new_row.c47 else t."col47" end,
            "col48" = case byte6 & 128 when 128 then new_row.c48 else t."col48" end,
            "col49" = case byte7 & 1 when 1 then new_row.c49 else t."col49" end,
            "col50" = case byte7 & 2 when 2 then new_row.c50 else t."col50" end,
            "col51" = case byte7 & 4 when 4 then new_row.c51 else t."col51" end,
            "col52" = case byte7 & 8 when 8 then new_row.c52 else t."col52" end,
            "col53" = case byte7 & 16 when 16 then new_row.c53 else t."col53" end,
            "col54" = case byte7 & 32 when 32 then new_row.c54 else t."col54" end,
            "col55" = case byte7 & 64 when 64 then new_row.c55 else t."col55" end,
            "col56" = case byte7 & 128 when 128 then new_row.c56 else t."col56" end,
            "col57" = case byte8 & 1 when 1 then new_row.c57 else t."col57" end,
            "col58" = case byte8 & 2 when 2 then new_row.c58 else t."col58" end,
            "col59" = case byte8 & 4 when 4 then new_row.c59 else t."col59" end,
            "col60" = case byte8 & 8 when 8 then new_row.c60 else t."col60" end,
            "col61" = case byte8 & 16 when 16 then new_row.c61 else t."col61" end,
            "col62" = case byte8 & 32 when 32 then new_row.c62 else t."col62" end,
            "col63" = case byte8 & 64 when 64 then new_row.c63 else t."col63" end,
            "col64" = case byte8 & 128 when 128 then new_row.c64 else t."col64" end,
            "col65" = case byte9 & 1 when 1 then new_row.c65 else t."col65" end,
            "col66" = case byte9 & 2 when 2 then new_row.c66 else t."col66" end,
            "col67" = case byte9 & 4 when 4 then new_row.c67 else t."col67" end,
            "col68" = case byte9 & 8 when 8 then new_row.c68 else t."col68" end,
            "col69" = case byte9 & 16 when 16 then new_row.c69 else t."col69" end,
            "col70" = case byte9 & 32 when 32 then new_row.c70 else t."col70" end,
            "col71" = case byte9 & 64 when 64 then new_row.c71 else t."col71" end,
            "col72" = case byte9 & 128 when 128 then new_row.c72 else t."col72" end,
            "col73" = case byte10 & 1 when 1 then new_row.c73 else t."col73" end,
            "col74" = case byte10 & 2 when 2 then new_row.c74 else t."col74" end,
            "col75" = case byte10 & 4 when 4 then new_row.c75 else t."col75" end,
            "col76" = case byte10 & 8 when 8 then new_row.c76 else t."col76" end,
            "col77" = case byte10 & 16 when 16 then new_row.c77 else t."col77" end,
            "col78" = case byte10 & 32 when 32 then new_row.c78 else t."col78" end,
            "col79" = case byte10 & 64 when 64 then new_row.c79 else t."col79" end,
            "col80" = case byte10 & 128 when 128 then new_row.c80 else t."col80" end,
            "col81" = case byte11 & 1 when 1 then new_row.c81 else t."col81" end,
            "col82" = case byte11 & 2 when 2 then new_row.c82 else t."col82" end,
            "col83" = case byte11 & 4 when 4 then new_row.c83 else t."col83" end,
            "col84" = case byte11 & 8 when 8 then new_row.c84 else t."col84" end,
            "col85" = case byte11 & 16 when 16 then new_row.c85 else t."col85" end,
            "col86" = case byte11 & 32 when 32 then new_row.c86 else t."col86" end,
            "col87" = case byte11 & 64 when 64 then new_row.c87 else t."col87" end,
            "col88" = case byte11 & 128 when 128 then new_row.c88 else t."col88" end,
            "col89" = case byte12 & 1 when 1 then new_row.c89 else t."col89" end,
            "col90" = case byte12 & 2 when 2 then new_row.c90 else t."col90" end,
            "col91" = case byte12 & 4 when 4 then new_row.c91 else t."col91" end,
            "col92" = case byte12 & 8 when 8 then new_row.c92 else t."col92" end,
            "col93" = case byte12 & 16 when 16 then new_row.c93 else t."col93" end,
            "col94" = case byte12 & 32 when 32 then new_row.c94 else t."col94" end,
            "col95" = case byte12 & 64 when 64 then new_row.c95 else t."col95" end,
            "col96" = case byte12 & 128 when 128 then new_row.c96 else t."col96" end,
            "col97" = case byte13 & 1 when 1 then new_row.c97 else t."col97" end,
            "col98" = case byte13 & 2 when 2 then new_row.c98 else t."col98" end,
            "col99" = case byte13 & 4 when 4 then new_row.c99 else t."col99" end,
            "col100" = case byte13 & 8 when 8 then new_row.c100 else t."col100" end
        where t."col1" operator(pg_catalog.=) original_key.pkc1;
    end if;
    if not found then
        perform msrepl.sp_msreplraiserror(20598, 'UPDATE', 'wide', jsonb_build_object('col1', original_key.pkc1));
    end if;
end
$msrepl$;
alter function "public"."sp_msupd_wide"("msrepl"."image_7", "msrepl"."key_7", bytea) owner to "purchasing";
revoke all on function "public"."sp_msupd_wide"("msrepl"."image_7", "msrepl"."key_7", bytea) from public;
grant execute on function "public"."sp_msupd_wide"("msrepl"."image_7", "msrepl"."key_7", bytea) to "msrepl_table_c268110370c2_47ec0b9e1ffa";
comment on function "public"."sp_msupd_wide"("msrepl"."image_7", "msrepl"."key_7", bytea) is 'Brings UPDATE of wide from the Publisher (SCALL)';

-- sp_msupd_<table>, CALL and XCALL, and sp_msdel_<table>: one statement by key, whose row must be there.
-- called by: msrepl.apply_<article>_upd, msrepl.apply_<article>_del
-- tables:    the subscribed table
-- holes:     procedure, parameters, guard, statement, command, article, key_json, computed, signature, owner, caller,
--            comment
--
-- An UPDATE sets every column, the key too: PostgreSQL finds by itself what did not change.
-- No search_path is set: see sp_msins_<table>.
create function "public"."sp_msdel_wide"(pkc1 integer) returns void
language plpgsql
as $msrepl$
#variable_conflict use_variable
begin
    delete from "public"."wide" as t
        where t."col1" operator(pg_catalog.=) pkc1;
    if not found then
        perform msrepl.sp_msreplraiserror(20598, 'DELETE', 'wide', jsonb_build_object('col1', pkc1));
    end if;
end
$msrepl$;
alter function "public"."sp_msdel_wide"(integer) owner to "purchasing";
revoke all on function "public"."sp_msdel_wide"(integer) from public;
grant execute on function "public"."sp_msdel_wide"(integer) to "msrepl_table_c268110370c2_47ec0b9e1ffa";
comment on function "public"."sp_msdel_wide"(integer) is 'Brings DELETE of wide from the Publisher (CALL)';

-- msrepl.apply_<article>_<operation>: one command as it is stored, handed to the procedure of its article.
-- called by: the distribution agent, for every row of a block
-- tables:    none
-- holes:     function, call_type, article, procedure_text, invocation, runs_as, path_stays, owner, agent, comment
--
-- The inner block changes nothing, so it takes no subtransaction id. No search_path is set: see
-- sp_msins_<table>.
create function "msrepl"."apply_7_ins"(command text) returns void
language plpgsql security definer
as $msrepl$
declare
    path constant text := pg_catalog.current_setting('search_path');
    c "msrepl"."call_7_ins";
    done boolean;
    more text;
begin
-- fragment: makes sure that a function that runs code of a table's owner runs in the name of its own owner.
-- called by: rendered into functions of a table's role, first
-- tables:    none
-- holes:     role_text
--
-- That code runs as the function's owner too, who may take SECURITY DEFINER or search_path away from it.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_47ec0b9e1ffa' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_47ec0b9e1ffa', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    begin
        c := command::"msrepl"."call_7_ins";
    exception
        when data_exception then
            get stacked diagnostics more = pg_exception_detail;
            perform msrepl.raise_unfit_call('wide', '"public"."sp_msins_wide"', sqlstate, sqlerrm, more);
    end;
    done := "public"."sp_msins_wide"(c.c1, c.c2, c.c3, c.c4, c.c5, c.c6, c.c7, c.c8, c.c9, c.c10, c.c11, c.c12, c.c13, c.c14, c.c15, c.c16, c.c17, c.c18, c.c19, c.c20, c.c21, c.c22, c.c23, c.c24, c.c25, c.c26, c.c27, c.c28, c.c29, c.c30, c.c31, c.c32, c.c33, c.c34, c.c35, c.c36, c.c37, c.c38, c.c39, c.c40, c.c41, c.c42, c.c43, c.c44, c.c45, c.c46, c.c47, c.c48, c.c49, c.c50, c.c51, c.c52, c.c53, c.c54, c.c55, c.c56, c.c57, c.c58, c.c59, c.c60, c.c61, c.c62, c.c63, c.c64, c.c65, c.c66, c.c67, c.c68, c.c69, c.c70, c.c71, c.c72, c.c73, c.c74, c.c75, c.c76, c.c77, c.c78, c.c79, c.c80, c.c81, c.c82, c.c83, c.c84, c.c85, c.c86, c.c87, c.c88, c.c89, c.c90, c.c91, c.c92, c.c93, c.c94, c.c95, c.c96, c.c97, c.c98, c.c99, c.c100) is null;
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered into what agents call for a table, last
-- tables:    none
-- holes:     none
--
-- A SET clause would cost a tenth of a call, and would not help: SET outlasts it.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) path then
        raise exception 'an expression, a trigger or a procedure of a table has set search_path'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
end
$msrepl$;
alter function "msrepl"."apply_7_ins"(text) owner to "msrepl_table_c268110370c2_47ec0b9e1ffa";
revoke all on function "msrepl"."apply_7_ins"(text) from public;
grant execute on function "msrepl"."apply_7_ins"(text) to "msrepl_agent_0123456789ab";
comment on function "msrepl"."apply_7_ins"(text) is 'Applies one command for INSERT in wide';

-- msrepl.apply_<article>_<operation>: one command as it is stored, handed to the procedure of its article.
-- called by: the distribution agent, for every row of a block
-- tables:    none
-- holes:     function, call_type, article, procedure_text, invocation, runs_as, path_stays, owner, agent, comment
--
-- The inner block changes nothing, so it takes no subtransaction id. No search_path is set: see
-- sp_msins_<table>.
create function "msrepl"."apply_7_upd"(command text) returns void
language plpgsql security definer
as $msrepl$
declare
    path constant text := pg_catalog.current_setting('search_path');
    c "msrepl"."call_7_upd";
    done boolean;
    more text;
begin
-- fragment: makes sure that a function that runs code of a table's owner runs in the name of its own owner.
-- called by: rendered into functions of a table's role, first
-- tables:    none
-- holes:     role_text
--
-- That code runs as the function's owner too, who may take SECURITY DEFINER or search_path away from it.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_47ec0b9e1ffa' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_47ec0b9e1ffa', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    begin
        c := command::"msrepl"."call_7_upd";
    exception
        when data_exception then
            get stacked diagnostics more = pg_exception_detail;
            perform msrepl.raise_unfit_call('wide', '"public"."sp_msupd_wide"', sqlstate, sqlerrm, more);
    end;
    done := "public"."sp_msupd_wide"(row(c.c1, c.c2, c.c3, c.c4, c.c5, c.c6, c.c7, c.c8, c.c9, c.c10, c.c11, c.c12, c.c13, c.c14, c.c15, c.c16, c.c17, c.c18, c.c19, c.c20, c.c21, c.c22, c.c23, c.c24, c.c25, c.c26, c.c27, c.c28, c.c29, c.c30, c.c31, c.c32, c.c33, c.c34, c.c35, c.c36, c.c37, c.c38, c.c39, c.c40, c.c41, c.c42, c.c43, c.c44, c.c45, c.c46, c.c47, c.c48, c.c49, c.c50, c.c51, c.c52, c.c53, c.c54, c.c55, c.c56, c.c57, c.c58, c.c59, c.c60, c.c61, c.c62, c.c63, c.c64, c.c65, c.c66, c.c67, c.c68, c.c69, c.c70, c.c71, c.c72, c.c73, c.c74, c.c75, c.c76, c.c77, c.c78, c.c79, c.c80, c.c81, c.c82, c.c83, c.c84, c.c85, c.c86, c.c87, c.c88, c.c89, c.c90, c.c91, c.c92, c.c93, c.c94, c.c95, c.c96, c.c97, c.c98, c.c99, c.c100)::"msrepl"."image_7", row(c.pkc1)::"msrepl"."key_7", c.bitmap) is null;
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered into what agents call for a table, last
-- tables:    none
-- holes:     none
--
-- A SET clause would cost a tenth of a call, and would not help: SET outlasts it.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) path then
        raise exception 'an expression, a trigger or a procedure of a table has set search_path'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
end
$msrepl$;
alter function "msrepl"."apply_7_upd"(text) owner to "msrepl_table_c268110370c2_47ec0b9e1ffa";
revoke all on function "msrepl"."apply_7_upd"(text) from public;
grant execute on function "msrepl"."apply_7_upd"(text) to "msrepl_agent_0123456789ab";
comment on function "msrepl"."apply_7_upd"(text) is 'Applies one command for UPDATE in wide';

-- msrepl.apply_<article>_<operation>: one command as it is stored, handed to the procedure of its article.
-- called by: the distribution agent, for every row of a block
-- tables:    none
-- holes:     function, call_type, article, procedure_text, invocation, runs_as, path_stays, owner, agent, comment
--
-- The inner block changes nothing, so it takes no subtransaction id. No search_path is set: see
-- sp_msins_<table>.
create function "msrepl"."apply_7_del"(command text) returns void
language plpgsql security definer
as $msrepl$
declare
    path constant text := pg_catalog.current_setting('search_path');
    c "msrepl"."call_7_del";
    done boolean;
    more text;
begin
-- fragment: makes sure that a function that runs code of a table's owner runs in the name of its own owner.
-- called by: rendered into functions of a table's role, first
-- tables:    none
-- holes:     role_text
--
-- That code runs as the function's owner too, who may take SECURITY DEFINER or search_path away from it.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_47ec0b9e1ffa' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_47ec0b9e1ffa', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    begin
        c := command::"msrepl"."call_7_del";
    exception
        when data_exception then
            get stacked diagnostics more = pg_exception_detail;
            perform msrepl.raise_unfit_call('wide', '"public"."sp_msdel_wide"', sqlstate, sqlerrm, more);
    end;
    done := "public"."sp_msdel_wide"(c.pkc1) is null;
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered into what agents call for a table, last
-- tables:    none
-- holes:     none
--
-- A SET clause would cost a tenth of a call, and would not help: SET outlasts it.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) path then
        raise exception 'an expression, a trigger or a procedure of a table has set search_path'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
end
$msrepl$;
alter function "msrepl"."apply_7_del"(text) owner to "msrepl_table_c268110370c2_47ec0b9e1ffa";
revoke all on function "msrepl"."apply_7_del"(text) from public;
grant execute on function "msrepl"."apply_7_del"(text) to "msrepl_agent_0123456789ab";
comment on function "msrepl"."apply_7_del"(text) is 'Applies one command for DELETE in wide';

-- msrepl.set_<article>_<operation>: a run of calls for one article and operation, as one statement.
-- called by: the distribution agent
-- tables:    the subscribed table; msrepl.msreplication_procedures
-- holes:     function, article_id, operation, call_type, statement, computed, runs_as, path_stays, owner, agent, comment
--
-- It does what the default procedure would do call by call, or nothing at all and returns -1: a row is not
-- here, a key is there twice, a value clashes (if only on its way to another row), a call does not
-- fit, or somebody has replaced the procedure. Then the calls are to be made one by one, and whatever is
-- wrong with one of them is said there.
create function "msrepl"."set_7_ins"(commands text[]) returns bigint
language plpgsql security definer
as $msrepl$
#variable_conflict use_variable
declare
    path constant text := pg_catalog.current_setting('search_path');
    rows "msrepl"."call_7_ins"[];
    done bigint;
begin
-- fragment: makes sure that a function that runs code of a table's owner runs in the name of its own owner.
-- called by: rendered into functions of a table's role, first
-- tables:    none
-- holes:     role_text
--
-- That code runs as the function's owner too, who may take SECURITY DEFINER or search_path away from it.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_47ec0b9e1ffa' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_47ec0b9e1ffa', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    if not msrepl.is_default_procedure(7, 'ins') then
        return -1;
    end if;
    begin
        rows := commands::"msrepl"."call_7_ins"[];
        insert into "public"."wide" as t ("col1", "col2", "col3", "col4", "col5", "col6", "col7", "col8", "col9", "col10", "col11", "col12", "col13", "col14", "col15", "col16", "col17", "col18", "col19", "col20", "col21", "col22", "col23", "col24", "col25", "col26", "col27", "col28", "col29", "col30", "col31", "col32", "col33", "col34", "col35", "col36", "col37", "col38", "col39", "col40", "col41", "col42", "col43", "col44", "col45", "col46", "col47", "col48", "col49", "col50", "col51", "col52", "col53", "col54", "col55", "col56", "col57", "col58", "col59", "col60", "col61", "col62", "col63", "col64", "col65", "col66", "col67", "col68", "col69", "col70", "col71", "col72", "col73", "col74", "col75", "col76", "col77", "col78", "col79", "col80", "col81", "col82", "col83", "col84", "col85", "col86", "col87", "col88", "col89", "col90", "col91", "col92", "col93", "col94", "col95", "col96", "col97", "col98", "col99", "col100")
        select c.c1, c.c2, c.c3, c.c4, c.c5, c.c6, c.c7, c.c8, c.c9, c.c10, c.c11, c.c12, c.c13, c.c14, c.c15, c.c16, c.c17, c.c18, c.c19, c.c20, c.c21, c.c22, c.c23, c.c24, c.c25, c.c26, c.c27, c.c28, c.c29, c.c30, c.c31, c.c32, c.c33, c.c34, c.c35, c.c36, c.c37, c.c38, c.c39, c.c40, c.c41, c.c42, c.c43, c.c44, c.c45, c.c46, c.c47, c.c48, c.c49, c.c50, c.c51, c.c52, c.c53, c.c54, c.c55, c.c56, c.c57, c.c58, c.c59, c.c60, c.c61, c.c62, c.c63, c.c64, c.c65, c.c66, c.c67, c.c68, c.c69, c.c70, c.c71, c.c72, c.c73, c.c74, c.c75, c.c76, c.c77, c.c78, c.c79, c.c80, c.c81, c.c82, c.c83, c.c84, c.c85, c.c86, c.c87, c.c88, c.c89, c.c90, c.c91, c.c92, c.c93, c.c94, c.c95, c.c96, c.c97, c.c98, c.c99, c.c100
        from unnest(rows) as c;
        get diagnostics done = row_count;
        if done <> cardinality(rows) then
            raise exception using errcode = 'no_data_found';
        end if;
    exception
        when no_data_found or unique_violation or exclusion_violation or data_exception then
            return -1;
    end;
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered into what agents call for a table, last
-- tables:    none
-- holes:     none
--
-- A SET clause would cost a tenth of a call, and would not help: SET outlasts it.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) path then
        raise exception 'an expression, a trigger or a procedure of a table has set search_path'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
    return done;
end
$msrepl$;
alter function "msrepl"."set_7_ins"(text[]) owner to "msrepl_table_c268110370c2_47ec0b9e1ffa";
revoke all on function "msrepl"."set_7_ins"(text[]) from public;
grant execute on function "msrepl"."set_7_ins"(text[]) to "msrepl_agent_0123456789ab";
comment on function "msrepl"."set_7_ins"(text[]) is 'Applies a run of commands for INSERT in wide';

-- msrepl.set_<article>_upd: a run of calls for one article's UPDATE, as one statement.
-- called by: the distribution agent
-- tables:    the subscribed table; msrepl.msreplication_procedures; catalogs
-- holes:     function, article_id, table_text, call_type, key, same, key_stays, statement, computed, runs_as,
--            path_stays, owner, agent, comment
--
-- As msrepl.set_<article>_<operation> for INSERT and DELETE. Of several calls that set the same columns of one
-- row only the last is made: nobody sees what comes in between, except a trigger or a rule that fires for
-- agents; where there is one, a call that is left out is a reason for -1. So is a call that changes the key:
-- others for the same key may be meant for another row. Those left of one row, which set different columns,
-- have their turns one after the other. In the order of the key: the table's pages are met once.
create function "msrepl"."set_7_upd"(commands text[]) returns bigint
language plpgsql security definer
as $msrepl$
#variable_conflict use_variable
declare
    path constant text := pg_catalog.current_setting('search_path');
    rows "msrepl"."call_7_upd"[];
    turn bigint := 0;
    turns bigint;
    wanted bigint;
    changed bigint;
    done bigint := 0;
begin
-- fragment: makes sure that a function that runs code of a table's owner runs in the name of its own owner.
-- called by: rendered into functions of a table's role, first
-- tables:    none
-- holes:     role_text
--
-- That code runs as the function's owner too, who may take SECURITY DEFINER or search_path away from it.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_47ec0b9e1ffa' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_47ec0b9e1ffa', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    if not msrepl.is_default_procedure(7, 'upd') then
        return -1;
    end if;
    begin
        rows := commands::"msrepl"."call_7_upd"[];
        loop
            turn := turn + 1;
            with last as (
                select distinct on (c.pkc1, c.bitmap) c.* from unnest(rows) with ordinality as c
                order by c.pkc1, c.bitmap, c.ordinality desc
            ), due as materialized (
                select c.*, row_number() over (partition by c.pkc1 order by c.ordinality) as place from last as c
            ), updated as (
            update "public"."wide" as t set
            "col2" = case get_byte(c.bitmap, 0) & 2 when 2 then c.c2 else t."col2" end,
            "col3" = case get_byte(c.bitmap, 0) & 4 when 4 then c.c3 else t."col3" end,
            "col4" = case get_byte(c.bitmap, 0) & 8 when 8 then c.c4 else t."col4" end,
            "col5" = case get_byte(c.bitmap, 0) & 16 when 16 then c.c5 else t."col5" end,
            "col6" = case get_byte(c.bitmap, 0) & 32 when 32 then c.c6 else t."col6" end,
            "col7" = case get_byte(c.bitmap, 0) & 64 when 64 then c.c7 else t."col7" end,
            "col8" = case get_byte(c.bitmap, 0) & 128 when 128 then c.c8 else t."col8" end,
            "col9" = case get_byte(c.bitmap, 1) & 1 when 1 then c.c9 else t."col9" end,
            "col10" = case get_byte(c.bitmap, 1) & 2 when 2 then c.c10 else t."col10" end,
            "col11" = case get_byte(c.bitmap, 1) & 4 when 4 then c.c11 else t."col11" end,
            "col12" = case get_byte(c.bitmap, 1) & 8 when 8 then c.c12 else t."col12" end,
            "col13" = case get_byte(c.bitmap, 1) & 16 when 16 then c.c13 else t."col13" end,
            "col14" = case get_byte(c.bitmap, 1) & 32 when 32 then c.c14 else t."col14" end,
            "col15" = case get_byte(c.bitmap, 1) & 64 when 64 then c.c15 else t."col15" end,
            "col16" = case get_byte(c.bitmap, 1) & 128 when 128 then c.c16 else t."col16" end,
            "col17" = case get_byte(c.bitmap, 2) & 1 when 1 then c.c17 else t."col17" end,
            "col18" = case get_byte(c.bitmap, 2) & 2 when 2 then c.c18 else t."col18" end,
            "col19" = case get_byte(c.bitmap, 2) & 4 when 4 then c.c19 else t."col19" end,
            "col20" = case get_byte(c.bitmap, 2) & 8 when 8 then c.c20 else t."col20" end,
            "col21" = case get_byte(c.bitmap, 2) & 16 when 16 then c.c21 else t."col21" end,
            "col22" = case get_byte(c.bitmap, 2) & 32 when 32 then c.c22 else t."col22" end,
            "col23" = case get_byte(c.bitmap, 2) & 64 when 64 then c.c23 else t."col23" end,
            "col24" = case get_byte(c.bitmap, 2) & 128 when 128 then c.c24 else t."col24" end,
            "col25" = case get_byte(c.bitmap, 3) & 1 when 1 then c.c25 else t."col25" end,
            "col26" = case get_byte(c.bitmap, 3) & 2 when 2 then c.c26 else t."col26" end,
            "col27" = case get_byte(c.bitmap, 3) & 4 when 4 then c.c27 else t."col27" end,
            "col28" = case get_byte(c.bitmap, 3) & 8 when 8 then c.c28 else t."col28" end,
            "col29" = case get_byte(c.bitmap, 3) & 16 when 16 then c.c29 else t."col29" end,
            "col30" = case get_byte(c.bitmap, 3) & 32 when 32 then c.c30 else t."col30" end,
            "col31" = case get_byte(c.bitmap, 3) & 64 when 64 then c.c31 else t."col31" end,
            "col32" = case get_byte(c.bitmap, 3) & 128 when 128 then c.c32 else t."col32" end,
            "col33" = case get_byte(c.bitmap, 4) & 1 when 1 then c.c33 else t."col33" end,
            "col34" = case get_byte(c.bitmap, 4) & 2 when 2 then c.c34 else t."col34" end,
            "col35" = case get_byte(c.bitmap, 4) & 4 when 4 then c.c35 else t."col35" end,
            "col36" = case get_byte(c.bitmap, 4) & 8 when 8 then c.c36 else t."col36" end,
            "col37" = case get_byte(c.bitmap, 4) & 16 when 16 then c.c37 else t."col37" end,
            "col38" = case get_byte(c.bitmap, 4) & 32 when 32 then c.c38 else t."col38" end,
            "col39" = case get_byte(c.bitmap, 4) & 64 when 64 then c.c39 else t."col39" end,
            "col40" = case get_byte(c.bitmap, 4) & 128 when 128 then c.c40 else t."col40" end,
            "col41" = case get_byte(c.bitmap, 5) & 1 when 1 then c.c41 else t."col41" end,
            "col42" = case get_byte(c.bitmap, 5) & 2 when 2 then c.c42 else t."col42" end,
            "col43" = case get_byte(c.bitmap, 5) & 4 when 4 then c.c43 else t."col43" end,
            "col44" = case get_byte(c.bitmap, 5) & 8 when 8 then c.c44 else t."col44" end,
            "col45" = case get_byte(c.bitmap, 5) & 16 when 16 then c.c45 else t."col45" end,
            "col46" = case get_byte(c.bitmap, 5) & 32 when 32 then c.c46 else t."col46" end,
            "col47" = case get_byte(c.bitmap, 5) & 64 when 64 then c.c47 else t."col47" end,
            "col48" = case get_byte(c.bitmap, 5) & 128 when 128 then c.c48 else t."col48" end,
            "col49" = case get_byte(c.bitmap, 6) & 1 when 1 then c.c49 else t."col49" end,
            "col50" = case get_byte(c.bitmap, 6) & 2 when 2 then c.c50 else t."col50" end,
            "col51" = case get_byte(c.bitmap, 6) & 4 when 4 then c.c51 else t."col51" end,
            "col52" = case get_byte(c.bitmap, 6) & 8 when 8 then c.c52 else t."col52" end,
            "col53" = case get_byte(c.bitmap, 6) & 16 when 16 then c.c53 else t."col53" end,
            "col54" = case get_byte(c.bitmap, 6) & 32 when 32 then c.c54 else t."col54" end,
            "col55" = case get_byte(c.bitmap, 6) & 64 when 64 then c.c55 else t."col55" end,
            "col56" = case get_byte(c.bitmap, 6) & 128 when 128 then c.c56 else t."col56" end,
            "col57" = case get_byte(c.bitmap, 7) & 1 when 1 then c.c57 else t."col57" end,
            "col58" = case get_byte(c.bitmap, 7) & 2 when 2 then c.c58 else t."col58" end,
            "col59" = case get_byte(c.bitmap, 7) & 4 when 4 then c.c59 else t."col59" end,
            "col60" = case get_byte(c.bitmap, 7) & 8 when 8 then c.c60 else t."col60" end,
            "col61" = case get_byte(c.bitmap, 7) & 16 when 16 then c.c61 else t."col61" end,
            "col62" = case get_byte(c.bitmap, 7) & 32 when 32 then c.c62 else t."col62" end,
            "col63" = case get_byte(c.bitmap, 7) & 64 when 64 then c.c63 else t."col63" end,
            "col64" = case get_byte(c.bitmap, 7) & 128 when 128 then c.c64 else t."col64" end,
            "col65" = case get_byte(c.bitmap, 8) & 1 when 1 then c.c65 else t."col65" end,
            "col66" = case get_byte(c.bitmap, 8) & 2 when 2 then c.c66 else t."col66" end,
            "col67" = case get_byte(c.bitmap, 8) & 4 when 4 then c.c67 else t."col67" end,
            "col68" = case get_byte(c.bitmap, 8) & 8 when 8 then c.c68 else t."col68" end,
            "col69" = case get_byte(c.bitmap, 8) & 16 when 16 then c.c69 else t."col69" end,
            "col70" = case get_byte(c.bitmap, 8) & 32 when 32 then c.c70 else t."col70" end,
            "col71" = case get_byte(c.bitmap, 8) & 64 when 64 then c.c71 else t."col71" end,
            "col72" = case get_byte(c.bitmap, 8) & 128 when 128 then c.c72 else t."col72" end,
            "col73" = case get_byte(c.bitmap, 9) & 1 when 1 then c.c73 else t."col73" end,
            "col74" = case get_byte(c.bitmap, 9) & 2 when 2 then c.c74 else t."col74" end,
            "col75" = case get_byte(c.bitmap, 9) & 4 when 4 then c.c75 else t."col75" end,
            "col76" = case get_byte(c.bitmap, 9) & 8 when 8 then c.c76 else t."col76" end,
            "col77" = case get_byte(c.bitmap, 9) & 16 when 16 then c.c77 else t."col77" end,
            "col78" = case get_byte(c.bitmap, 9) & 32 when 32 then c.c78 else t."col78" end,
            "col79" = case get_byte(c.bitmap, 9) & 64 when 64 then c.c79 else t."col79" end,
            "col80" = case get_byte(c.bitmap, 9) & 128 when 128 then c.c80 else t."col80" end,
            "col81" = case get_byte(c.bitmap, 10) & 1 when 1 then c.c81 else t."col81" end,
            "col82" = case get_byte(c.bitmap, 10) & 2 when 2 then c.c82 else t."col82" end,
            "col83" = case get_byte(c.bitmap, 10) & 4 when 4 then c.c83 else t."col83" end,
            "col84" = case get_byte(c.bitmap, 10) & 8 when 8 then c.c84 else t."col84" end,
            "col85" = case get_byte(c.bitmap, 10) & 16 when 16 then c.c85 else t."col85" end,
            "col86" = case get_byte(c.bitmap, 10) & 32 when 32 then c.c86 else t."col86" end,
            "col87" = case get_byte(c.bitmap, 10) & 64 when 64 then c.c87 else t."col87" end,
            "col88" = case get_byte(c.bitmap, 10) & 128 when 128 then c.c88 else t."col88" end,
            "col89" = case get_byte(c.bitmap, 11) & 1 when 1 then c.c89 else t."col89" end,
            "col90" = case get_byte(c.bitmap, 11) & 2 when 2 then c.c90 else t."col90" end,
            "col91" = case get_byte(c.bitmap, 11) & 4 when 4 then c.c91 else t."col91" end,
            "col92" = case get_byte(c.bitmap, 11) & 8 when 8 then c.c92 else t."col92" end,
            "col93" = case get_byte(c.bitmap, 11) & 16 when 16 then c.c93 else t."col93" end,
            "col94" = case get_byte(c.bitmap, 11) & 32 when 32 then c.c94 else t."col94" end,
            "col95" = case get_byte(c.bitmap, 11) & 64 when 64 then c.c95 else t."col95" end,
            "col96" = case get_byte(c.bitmap, 11) & 128 when 128 then c.c96 else t."col96" end,
            "col97" = case get_byte(c.bitmap, 12) & 1 when 1 then c.c97 else t."col97" end,
            "col98" = case get_byte(c.bitmap, 12) & 2 when 2 then c.c98 else t."col98" end,
            "col99" = case get_byte(c.bitmap, 12) & 4 when 4 then c.c99 else t."col99" end,
            "col100" = case get_byte(c.bitmap, 12) & 8 when 8 then c.c100 else t."col100" end
        from due as c
        where t."col1" operator(pg_catalog.=) c.pkc1 and c.place = turn and (get_byte(c.bitmap, 0) & 1 = 0 or row(c.c1)::text is not distinct from row(c.pkc1)::text)
            returning 1)
            select max(c.place), count(*) filter (where c.place = turn), (select count(*) from updated)
            into turns, wanted, changed from due as c;
            if changed <> wanted then
                raise exception using errcode = 'no_data_found';
            end if;
            done := done + changed;
            exit when turn >= turns;
        end loop;
        if done < cardinality(rows) and (
            msrepl.fires_for_agents('"public"."wide"') or exists (select from unnest(rows) as c where not ((get_byte(c.bitmap, 0) & 1 = 0 or row(c.c1)::text is not distinct from row(c.pkc1)::text)))
        ) then
            raise exception using errcode = 'no_data_found';
        end if;
    exception
        when no_data_found or unique_violation or exclusion_violation or data_exception then
            return -1;
    end;
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered into what agents call for a table, last
-- tables:    none
-- holes:     none
--
-- A SET clause would cost a tenth of a call, and would not help: SET outlasts it.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) path then
        raise exception 'an expression, a trigger or a procedure of a table has set search_path'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
    return cardinality(rows);
end
$msrepl$;
alter function "msrepl"."set_7_upd"(text[]) owner to "msrepl_table_c268110370c2_47ec0b9e1ffa";
revoke all on function "msrepl"."set_7_upd"(text[]) from public;
grant execute on function "msrepl"."set_7_upd"(text[]) to "msrepl_agent_0123456789ab";
comment on function "msrepl"."set_7_upd"(text[]) is 'Applies a run of commands for UPDATE in wide';

-- msrepl.set_<article>_<operation>: a run of calls for one article and operation, as one statement.
-- called by: the distribution agent
-- tables:    the subscribed table; msrepl.msreplication_procedures
-- holes:     function, article_id, operation, call_type, statement, computed, runs_as, path_stays, owner, agent, comment
--
-- It does what the default procedure would do call by call, or nothing at all and returns -1: a row is not
-- here, a key is there twice, a value clashes (if only on its way to another row), a call does not
-- fit, or somebody has replaced the procedure. Then the calls are to be made one by one, and whatever is
-- wrong with one of them is said there.
create function "msrepl"."set_7_del"(commands text[]) returns bigint
language plpgsql security definer
as $msrepl$
#variable_conflict use_variable
declare
    path constant text := pg_catalog.current_setting('search_path');
    rows "msrepl"."call_7_del"[];
    done bigint;
begin
-- fragment: makes sure that a function that runs code of a table's owner runs in the name of its own owner.
-- called by: rendered into functions of a table's role, first
-- tables:    none
-- holes:     role_text
--
-- That code runs as the function's owner too, who may take SECURITY DEFINER or search_path away from it.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_47ec0b9e1ffa' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_47ec0b9e1ffa', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    if not msrepl.is_default_procedure(7, 'del') then
        return -1;
    end if;
    begin
        rows := commands::"msrepl"."call_7_del"[];
        delete from "public"."wide" as t
        using unnest(rows) as c
        where t."col1" operator(pg_catalog.=) c.pkc1;
        get diagnostics done = row_count;
        if done <> cardinality(rows) then
            raise exception using errcode = 'no_data_found';
        end if;
    exception
        when no_data_found or unique_violation or exclusion_violation or data_exception then
            return -1;
    end;
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered into what agents call for a table, last
-- tables:    none
-- holes:     none
--
-- A SET clause would cost a tenth of a call, and would not help: SET outlasts it.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) path then
        raise exception 'an expression, a trigger or a procedure of a table has set search_path'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
    return done;
end
$msrepl$;
alter function "msrepl"."set_7_del"(text[]) owner to "msrepl_table_c268110370c2_47ec0b9e1ffa";
revoke all on function "msrepl"."set_7_del"(text[]) from public;
grant execute on function "msrepl"."set_7_del"(text[]) to "msrepl_agent_0123456789ab";
comment on function "msrepl"."set_7_del"(text[]) is 'Applies a run of commands for DELETE in wide';

-- msrepl.net_<article>: updates that are in each other's way, made at once: unique values are freed first.
-- called by: msrepl.apply_net
-- tables:    the subscribed table; msrepl.msreplication_procedures
-- holes:     function, article_id, table, table_text, call_type, match, columns, values, computed, runs_as, path_stays, owner, agent,
--            comment
--
-- The rows are deleted and inserted again in one statement, with what only this Subscriber knows of them, so that
-- at its end nothing refers to a row that is gone. -1: it must not be done, because a referential action would
-- follow the delete, or because somebody has replaced the default procedure.
create function "msrepl"."net_7"(commands text[]) returns bigint
language plpgsql security definer
as $msrepl$
#variable_conflict use_variable
declare
    path constant text := pg_catalog.current_setting('search_path');
    rows "msrepl"."call_7_upd"[];
    done bigint;
begin
-- fragment: makes sure that a function that runs code of a table's owner runs in the name of its own owner.
-- called by: rendered into functions of a table's role, first
-- tables:    none
-- holes:     role_text
--
-- That code runs as the function's owner too, who may take SECURITY DEFINER or search_path away from it.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_47ec0b9e1ffa' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_47ec0b9e1ffa', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    if not msrepl.is_default_procedure(7, 'upd') or exists (
        select from pg_catalog.pg_trigger as k
        join pg_catalog.pg_constraint as r on r.oid = k.tgconstraint
        where k.tgrelid = '"public"."wide"'::regclass and k.tgenabled in ('A', 'R') and r.contype = 'f'
          and r.confrelid = k.tgrelid and r.confdeltype in ('c', 'n', 'd')
    ) then
        return -1;
    end if;
    rows := commands::"msrepl"."call_7_upd"[];
    with gone as (
        delete from "public"."wide" as t using unnest(rows) as c where t."col1" operator(pg_catalog.=) c.pkc1 returning t as held, c as call
    ), everything as (
        select array_agg(held) as held, array_agg(call) as calls from gone
    ), pairs as (
        select held[place] as t, calls[place] as c
        from everything, generate_subscripts(held, 1) as place
    )
    insert into "public"."wide" ("col1", "col2", "col3", "col4", "col5", "col6", "col7", "col8", "col9", "col10", "col11", "col12", "col13", "col14", "col15", "col16", "col17", "col18", "col19", "col20", "col21", "col22", "col23", "col24", "col25", "col26", "col27", "col28", "col29", "col30", "col31", "col32", "col33", "col34", "col35", "col36", "col37", "col38", "col39", "col40", "col41", "col42", "col43", "col44", "col45", "col46", "col47", "col48", "col49", "col50", "col51", "col52", "col53", "col54", "col55", "col56", "col57", "col58", "col59", "col60", "col61", "col62", "col63", "col64", "col65", "col66", "col67", "col68", "col69", "col70", "col71", "col72", "col73", "col74", "col75", "col76", "col77", "col78", "col79", "col80", "col81", "col82", "col83", "col84", "col85", "col86", "col87", "col88", "col89", "col90", "col91", "col92", "col93", "col94", "col95", "col96", "col97", "col98", "col99", "col100") overriding system value
    select case get_byte((c).bitmap, 0) & 1 when 1 then (c).c1 else (t)."col1" end, case get_byte((c).bitmap, 0) & 2 when 2 then (c).c2 else (t)."col2" end, case get_byte((c).bitmap, 0) & 4 when 4 then (c).c3 else (t)."col3" end, case get_byte((c).bitmap, 0) & 8 when 8 then (c).c4 else (t)."col4" end, case get_byte((c).bitmap, 0) & 16 when 16 then (c).c5 else (t)."col5" end, case get_byte((c).bitmap, 0) & 32 when 32 then (c).c6 else (t)."col6" end, case get_byte((c).bitmap, 0) & 64 when 64 then (c).c7 else (t)."col7" end, case get_byte((c).bitmap, 0) & 128 when 128 then (c).c8 else (t)."col8" end, case get_byte((c).bitmap, 1) & 1 when 1 then (c).c9 else (t)."col9" end, case get_byte((c).bitmap, 1) & 2 when 2 then (c).c10 else (t)."col10" end, case get_byte((c).bitmap, 1) & 4 when 4 then (c).c11 else (t)."col11" end, case get_byte((c).bitmap, 1) & 8 when 8 then (c).c12 else (t)."col12" end, case get_byte((c).bitmap, 1) & 16 when 16 then (c).c13 else (t)."col13" end, case get_byte((c).bitmap, 1) & 32 when 32 then (c).c14 else (t)."col14" end, case get_byte((c).bitmap, 1) & 64 when 64 then (c).c15 else (t)."col15" end, case get_byte((c).bitmap, 1) & 128 when 128 then (c).c16 else (t)."col16" end, case get_byte((c).bitmap, 2) & 1 when 1 then (c).c17 else (t)."col17" end, case get_byte((c).bitmap, 2) & 2 when 2 then (c).c18 else (t)."col18" end, case get_byte((c).bitmap, 2) & 4 when 4 then (c).c19 else (t)."col19" end, case get_byte((c).bitmap, 2) & 8 when 8 then (c).c20 else (t)."col20" end, case get_byte((c).bitmap, 2) & 16 when 16 then (c).c21 else (t)."col21" end, case get_byte((c).bitmap, 2) & 32 when 32 then (c).c22 else (t)."col22" end, case get_byte((c).bitmap, 2) & 64 when 64 then (c).c23 else (t)."col23" end, case get_byte((c).bitmap, 2) & 128 when 128 then (c).c24 else (t)."col24" end, case get_byte((c).bitmap, 3) & 1 when 1 then (c).c25 else (t)."col25" end, case get_byte((c).bitmap, 3) & 2 when 2 then (c).c26 else (t)."col26" end, case get_byte((c).bitmap, 3) & 4 when 4 then (c).c27 else (t)."col27" end, case get_byte((c).bitmap, 3) & 8 when 8 then (c).c28 else (t)."col28" end, case get_byte((c).bitmap, 3) & 16 when 16 then (c).c29 else (t)."col29" end, case get_byte((c).bitmap, 3) & 32 when 32 then (c).c30 else (t)."col30" end, case get_byte((c).bitmap, 3) & 64 when 64 then (c).c31 else (t)."col31" end, case get_byte((c).bitmap, 3) & 128 when 128 then (c).c32 else (t)."col32" end, case get_byte((c).bitmap, 4) & 1 when 1 then (c).c33 else (t)."col33" end, case get_byte((c).bitmap, 4) & 2 when 2 then (c).c34 else (t)."col34" end, case get_byte((c).bitmap, 4) & 4 when 4 then (c).c35 else (t)."col35" end, case get_byte((c).bitmap, 4) & 8 when 8 then (c).c36 else (t)."col36" end, case get_byte((c).bitmap, 4) & 16 when 16 then (c).c37 else (t)."col37" end, case get_byte((c).bitmap, 4) & 32 when 32 then (c).c38 else (t)."col38" end, case get_byte((c).bitmap, 4) & 64 when 64 then (c).c39 else (t)."col39" end, case get_byte((c).bitmap, 4) & 128 when 128 then (c).c40 else (t)."col40" end, case get_byte((c).bitmap, 5) & 1 when 1 then (c).c41 else (t)."col41" end, case get_byte((c).bitmap, 5) & 2 when 2 then (c).c42 else (t)."col42" end, case get_byte((c).bitmap, 5) & 4 when 4 then (c).c43 else (t)."col43" end, case get_byte((c).bitmap, 5) & 8 when 8 then (c).c44 else (t)."col44" end, case get_byte((c).bitmap, 5) & 16 when 16 then (c).c45 else (t)."col45" end, case get_byte((c).bitmap, 5) & 32 when 32 then (c).c46 else (t)."col46" end, case get_byte((c).bitmap, 5) & 64 when 64 then (c).c47 else (t)."col47" end, case get_byte((c).bitmap, 5) & 128 when 128 then (c).c48 else (t)."col48" end, case get_byte((c).bitmap, 6) & 1 when 1 then (c).c49 else (t)."col49" end, case get_byte((c).bitmap, 6) & 2 when 2 then (c).c50 else (t)."col50" end, case get_byte((c).bitmap, 6) & 4 when 4 then (c).c51 else (t)."col51" end, case get_byte((c).bitmap, 6) & 8 when 8 then (c).c52 else (t)."col52" end, case get_byte((c).bitmap, 6) & 16 when 16 then (c).c53 else (t)."col53" end, case get_byte((c).bitmap, 6) & 32 when 32 then (c).c54 else (t)."col54" end, case get_byte((c).bitmap, 6) & 64 when 64 then (c).c55 else (t)."col55" end, case get_byte((c).bitmap, 6) & 128 when 128 then (c).c56 else (t)."col56" end, case get_byte((c).bitmap, 7) & 1 when 1 then (c).c57 else (t)."col57" end, case get_byte((c).bitmap, 7) & 2 when 2 then (c).c58 else (t)."col58" end, case get_byte((c).bitmap, 7) & 4 when 4 then (c).c59 else (t)."col59" end, case get_byte((c).bitmap, 7) & 8 when 8 then (c).c60 else (t)."col60" end, case get_byte((c).bitmap, 7) & 16 when 16 then (c).c61 else (t)."col61" end, case get_byte((c).bitmap, 7) & 32 when 32 then (c).c62 else (t)."col62" end, case get_byte((c).bitmap, 7) & 64 when 64 then (c).c63 else (t)."col63" end, case get_byte((c).bitmap, 7) & 128 when 128 then (c).c64 else (t)."col64" end, case get_byte((c).bitmap, 8) & 1 when 1 then (c).c65 else (t)."col65" end, case get_byte((c).bitmap, 8) & 2 when 2 then (c).c66 else (t)."col66" end, case get_byte((c).bitmap, 8) & 4 when 4 then (c).c67 else (t)."col67" end, case get_byte((c).bitmap, 8) & 8 when 8 then (c).c68 else (t)."col68" end, case get_byte((c).bitmap, 8) & 16 when 16 then (c).c69 else (t)."col69" end, case get_byte((c).bitmap, 8) & 32 when 32 then (c).c70 else (t)."col70" end, case get_byte((c).bitmap, 8) & 64 when 64 then (c).c71 else (t)."col71" end, case get_byte((c).bitmap, 8) & 128 when 128 then (c).c72 else (t)."col72" end, case get_byte((c).bitmap, 9) & 1 when 1 then (c).c73 else (t)."col73" end, case get_byte((c).bitmap, 9) & 2 when 2 then (c).c74 else (t)."col74" end, case get_byte((c).bitmap, 9) & 4 when 4 then (c).c75 else (t)."col75" end, case get_byte((c).bitmap, 9) & 8 when 8 then (c).c76 else (t)."col76" end, case get_byte((c).bitmap, 9) & 16 when 16 then (c).c77 else (t)."col77" end, case get_byte((c).bitmap, 9) & 32 when 32 then (c).c78 else (t)."col78" end, case get_byte((c).bitmap, 9) & 64 when 64 then (c).c79 else (t)."col79" end, case get_byte((c).bitmap, 9) & 128 when 128 then (c).c80 else (t)."col80" end, case get_byte((c).bitmap, 10) & 1 when 1 then (c).c81 else (t)."col81" end, case get_byte((c).bitmap, 10) & 2 when 2 then (c).c82 else (t)."col82" end, case get_byte((c).bitmap, 10) & 4 when 4 then (c).c83 else (t)."col83" end, case get_byte((c).bitmap, 10) & 8 when 8 then (c).c84 else (t)."col84" end, case get_byte((c).bitmap, 10) & 16 when 16 then (c).c85 else (t)."col85" end, case get_byte((c).bitmap, 10) & 32 when 32 then (c).c86 else (t)."col86" end, case get_byte((c).bitmap, 10) & 64 when 64 then (c).c87 else (t)."col87" end, case get_byte((c).bitmap, 10) & 128 when 128 then (c).c88 else (t)."col88" end, case get_byte((c).bitmap, 11) & 1 when 1 then (c).c89 else (t)."col89" end, case get_byte((c).bitmap, 11) & 2 when 2 then (c).c90 else (t)."col90" end, case get_byte((c).bitmap, 11) & 4 when 4 then (c).c91 else (t)."col91" end, case get_byte((c).bitmap, 11) & 8 when 8 then (c).c92 else (t)."col92" end, case get_byte((c).bitmap, 11) & 16 when 16 then (c).c93 else (t)."col93" end, case get_byte((c).bitmap, 11) & 32 when 32 then (c).c94 else (t)."col94" end, case get_byte((c).bitmap, 11) & 64 when 64 then (c).c95 else (t)."col95" end, case get_byte((c).bitmap, 11) & 128 when 128 then (c).c96 else (t)."col96" end, case get_byte((c).bitmap, 12) & 1 when 1 then (c).c97 else (t)."col97" end, case get_byte((c).bitmap, 12) & 2 when 2 then (c).c98 else (t)."col98" end, case get_byte((c).bitmap, 12) & 4 when 4 then (c).c99 else (t)."col99" end, case get_byte((c).bitmap, 12) & 8 when 8 then (c).c100 else (t)."col100" end from pairs;
    get diagnostics done = row_count;
    if done <> cardinality(rows) then
        return -1;
    end if;
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered into what agents call for a table, last
-- tables:    none
-- holes:     none
--
-- A SET clause would cost a tenth of a call, and would not help: SET outlasts it.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) path then
        raise exception 'an expression, a trigger or a procedure of a table has set search_path'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
    return done;
end
$msrepl$;
alter function "msrepl"."net_7"(text[]) owner to "msrepl_table_c268110370c2_47ec0b9e1ffa";
revoke all on function "msrepl"."net_7"(text[]) from public;
grant execute on function "msrepl"."net_7"(text[]) to "msrepl_agent_0123456789ab";
comment on function "msrepl"."net_7"(text[]) is 'Makes updates of wide at once that are in each other''s way';

-- The row of an article's procedure: what is called, and what unsubscribing drops.
-- called by: twopc.subscriber.propagation
-- tables:    msrepl.msreplication_procedures
-- holes:     article_id, operation, schema, table, format, shape, procedure, signature, is_default, agent
insert into msrepl.msreplication_procedures
    (article_id, operation, dest_schema, article, format, shape, procedure, signature, is_default, digest, agent)
values (7, 'ins', 'public', 'wide', 'CALL', 'f4d77d858fd9', '"public"."sp_msins_wide"', '"public"."sp_msins_wide"(integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer)', true,
        case when true then (select md5(prosrc) from pg_proc where oid = to_regprocedure('"public"."sp_msins_wide"(integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer, integer)')) end,
        'msrepl_agent_0123456789ab');

-- The row of an article's procedure: what is called, and what unsubscribing drops.
-- called by: twopc.subscriber.propagation
-- tables:    msrepl.msreplication_procedures
-- holes:     article_id, operation, schema, table, format, shape, procedure, signature, is_default, agent
insert into msrepl.msreplication_procedures
    (article_id, operation, dest_schema, article, format, shape, procedure, signature, is_default, digest, agent)
values (7, 'upd', 'public', 'wide', 'SCALL', 'f4d77d858fd9', '"public"."sp_msupd_wide"', '"public"."sp_msupd_wide"("msrepl"."image_7", "msrepl"."key_7", bytea)', true,
        case when true then (select md5(prosrc) from pg_proc where oid = to_regprocedure('"public"."sp_msupd_wide"("msrepl"."image_7", "msrepl"."key_7", bytea)')) end,
        'msrepl_agent_0123456789ab');

-- The row of an article's procedure: what is called, and what unsubscribing drops.
-- called by: twopc.subscriber.propagation
-- tables:    msrepl.msreplication_procedures
-- holes:     article_id, operation, schema, table, format, shape, procedure, signature, is_default, agent
insert into msrepl.msreplication_procedures
    (article_id, operation, dest_schema, article, format, shape, procedure, signature, is_default, digest, agent)
values (7, 'del', 'public', 'wide', 'CALL', 'f4d77d858fd9', '"public"."sp_msdel_wide"', '"public"."sp_msdel_wide"(integer)', true,
        case when true then (select md5(prosrc) from pg_proc where oid = to_regprocedure('"public"."sp_msdel_wide"(integer)')) end,
        'msrepl_agent_0123456789ab');
