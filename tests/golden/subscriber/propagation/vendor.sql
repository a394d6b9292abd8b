create function "purchasing"."sp_msins_purchasingvendor"(
    c1 integer,
    c2 character varying(15),
    c3 character varying(50),
    c4 smallint,
    c5 boolean,
    c6 boolean,
    c7 character varying(1024),
    c8 timestamp without time zone) returns void
language plpgsql
as $msrepl$
#variable_conflict use_variable
begin
    insert into "purchasing"."vendor" as t ("vendorid", "accountnumber", "name", "creditrating", "preferredvendorstatus", "activeflag", "purchasingwebserviceurl", "modifieddate")
    values (c1, c2, c3, c4, c5, c6, c7, c8);
end
$msrepl$;
alter function "purchasing"."sp_msins_purchasingvendor"(integer, character varying(15), character varying(50), smallint, boolean, boolean, character varying(1024), timestamp without time zone) owner to "purchasing";
revoke all on function "purchasing"."sp_msins_purchasingvendor"(integer, character varying(15), character varying(50), smallint, boolean, boolean, character varying(1024), timestamp without time zone) from public;
grant execute on function "purchasing"."sp_msins_purchasingvendor"(integer, character varying(15), character varying(50), smallint, boolean, boolean, character varying(1024), timestamp without time zone) to "msrepl_table_c268110370c2_bbb17230d8a3";
comment on function "purchasing"."sp_msins_purchasingvendor"(integer, character varying(15), character varying(50), smallint, boolean, boolean, character varying(1024), timestamp without time zone) is 'Brings INSERT of purchasing.vendor from the Publisher (CALL)';

create function "purchasing"."sp_msupd_purchasingvendor"(
    c1 integer default null,
    c2 character varying(15) default null,
    c3 character varying(50) default null,
    c4 smallint default null,
    c5 boolean default null,
    c6 boolean default null,
    c7 character varying(1024) default null,
    c8 timestamp without time zone default null,
    pkc1 integer default null,
    bitmap bytea default null) returns void
language plpgsql
as $msrepl$
#variable_conflict use_variable
declare
    byte1 constant integer := get_byte(bitmap, 0);
    byte2 constant integer := get_byte(bitmap, 1);
begin
    if byte1 & 1 <> 0 then
        update "purchasing"."vendor" as t set
            "vendorid" = case byte1 & 1 when 1 then c1 else t."vendorid" end,
            "accountnumber" = case byte1 & 2 when 2 then c2 else t."accountnumber" end,
            "name" = case byte1 & 4 when 4 then c3 else t."name" end,
            "creditrating" = case byte1 & 8 when 8 then c4 else t."creditrating" end,
            "preferredvendorstatus" = case byte1 & 16 when 16 then c5 else t."preferredvendorstatus" end,
            "activeflag" = case byte1 & 32 when 32 then c6 else t."activeflag" end,
            "purchasingwebserviceurl" = case byte1 & 64 when 64 then c7 else t."purchasingwebserviceurl" end,
            "modifieddate" = case byte1 & 128 when 128 then c8 else t."modifieddate" end
        where t."vendorid" operator(pg_catalog.=) pkc1;
    else
        update "purchasing"."vendor" as t set
            "accountnumber" = case byte1 & 2 when 2 then c2 else t."accountnumber" end,
            "name" = case byte1 & 4 when 4 then c3 else t."name" end,
            "creditrating" = case byte1 & 8 when 8 then c4 else t."creditrating" end,
            "preferredvendorstatus" = case byte1 & 16 when 16 then c5 else t."preferredvendorstatus" end,
            "activeflag" = case byte1 & 32 when 32 then c6 else t."activeflag" end,
            "purchasingwebserviceurl" = case byte1 & 64 when 64 then c7 else t."purchasingwebserviceurl" end,
            "modifieddate" = case byte1 & 128 when 128 then c8 else t."modifieddate" end
        where t."vendorid" operator(pg_catalog.=) pkc1;
    end if;
    if not found then
        perform msrepl.sp_msreplraiserror(20598, 'UPDATE', 'purchasing.vendor', jsonb_build_object('vendorid', pkc1));
    end if;
end
$msrepl$;
alter function "purchasing"."sp_msupd_purchasingvendor"(integer, character varying(15), character varying(50), smallint, boolean, boolean, character varying(1024), timestamp without time zone, integer, bytea) owner to "purchasing";
revoke all on function "purchasing"."sp_msupd_purchasingvendor"(integer, character varying(15), character varying(50), smallint, boolean, boolean, character varying(1024), timestamp without time zone, integer, bytea) from public;
grant execute on function "purchasing"."sp_msupd_purchasingvendor"(integer, character varying(15), character varying(50), smallint, boolean, boolean, character varying(1024), timestamp without time zone, integer, bytea) to "msrepl_table_c268110370c2_bbb17230d8a3";
comment on function "purchasing"."sp_msupd_purchasingvendor"(integer, character varying(15), character varying(50), smallint, boolean, boolean, character varying(1024), timestamp without time zone, integer, bytea) is 'Brings UPDATE of purchasing.vendor from the Publisher (SCALL)';

create function "purchasing"."sp_msdel_purchasingvendor"(pkc1 integer) returns void
language plpgsql
as $msrepl$
#variable_conflict use_variable
begin
    delete from "purchasing"."vendor" as t
        where t."vendorid" operator(pg_catalog.=) pkc1;
    if not found then
        perform msrepl.sp_msreplraiserror(20598, 'DELETE', 'purchasing.vendor', jsonb_build_object('vendorid', pkc1));
    end if;
end
$msrepl$;
alter function "purchasing"."sp_msdel_purchasingvendor"(integer) owner to "purchasing";
revoke all on function "purchasing"."sp_msdel_purchasingvendor"(integer) from public;
grant execute on function "purchasing"."sp_msdel_purchasingvendor"(integer) to "msrepl_table_c268110370c2_bbb17230d8a3";
comment on function "purchasing"."sp_msdel_purchasingvendor"(integer) is 'Brings DELETE of purchasing.vendor from the Publisher (CALL)';
