-- msrepl.call_<article>_<operation>, msrepl.image_<article>, msrepl.key_<article>: the types of what a call carries.
-- called by: msrepl.apply_<article>_<operation>, and procedures with more parameters than PostgreSQL allows
-- tables:    none
-- holes:     type, attributes, owner, agent, comment
create type "msrepl"."call_7_ins" as ("c1" integer, "c2" text, "c3" numeric(12,2), "c4" uuid);
alter type "msrepl"."call_7_ins" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."call_7_ins" from public;
grant usage on type "msrepl"."call_7_ins" to "msrepl_agent_0123456789ab";
comment on type "msrepl"."call_7_ins" is 'Values of a command for INSERT in account';

-- msrepl.call_<article>_<operation>, msrepl.image_<article>, msrepl.key_<article>: the types of what a call carries.
-- called by: msrepl.apply_<article>_<operation>, and procedures with more parameters than PostgreSQL allows
-- tables:    none
-- holes:     type, attributes, owner, agent, comment
create type "msrepl"."call_7_upd" as ("c1" integer, "c2" text, "c3" numeric(12,2), "c4" uuid, "pkc1" integer, "bitmap" bytea);
alter type "msrepl"."call_7_upd" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."call_7_upd" from public;
grant usage on type "msrepl"."call_7_upd" to "msrepl_agent_0123456789ab";
comment on type "msrepl"."call_7_upd" is 'Values of a command for UPDATE in account';

-- msrepl.call_<article>_<operation>, msrepl.image_<article>, msrepl.key_<article>: the types of what a call carries.
-- called by: msrepl.apply_<article>_<operation>, and procedures with more parameters than PostgreSQL allows
-- tables:    none
-- holes:     type, attributes, owner, agent, comment
create type "msrepl"."call_7_del" as ("pkc1" integer);
alter type "msrepl"."call_7_del" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."call_7_del" from public;
grant usage on type "msrepl"."call_7_del" to "msrepl_agent_0123456789ab";
comment on type "msrepl"."call_7_del" is 'Values of a command for DELETE in account';

-- The role that writes one published or subscribed table. Expressions and triggers of the table's owner run
-- in its name.
-- called by: twopc.publisher.article_setup, twopc.subscriber.subscription, twopc.subscriber.propagation
-- tables:    none
-- holes:     role, role_text, schema, table_schema, table, privileges, comment
--
-- It owns the functions that write this table for us, and has no other rights: the owner of a table can put code
-- into its constraints, indexes, domains, defaults and triggers.
do $msrepl$
begin
    if not exists (select from pg_roles where rolname = 'msrepl_table_c268110370c2_9152ee2bae7f') then
        create role "msrepl_table_c268110370c2_9152ee2bae7f" nologin;
        comment on role "msrepl_table_c268110370c2_9152ee2bae7f" is 'Writes account for replication';
    end if;
end
$msrepl$;
grant usage on schema "msrepl", "public" to "msrepl_table_c268110370c2_9152ee2bae7f";
grant select, insert, update, delete on "public"."account" to "msrepl_table_c268110370c2_9152ee2bae7f";

-- Rights that the role of a subscribed table needs besides the table: agents' commands are applied in its name.
-- called by: twopc.subscriber.propagation
-- tables:    msrepl.msreplication_procedures
-- holes:     role, calls, agent_text
--
-- If agents may bypass row security, so may this role, which has no other table.
grant execute on function msrepl.is_default_procedure(integer, text), msrepl.fires_for_agents(regclass) to "msrepl_table_c268110370c2_9152ee2bae7f";
grant execute on function msrepl.raise_unfit_call(text, text, text, text, text) to "msrepl_table_c268110370c2_9152ee2bae7f";
grant select on msrepl.msreplication_procedures to "msrepl_table_c268110370c2_9152ee2bae7f";
grant "msrepl_table_c268110370c2_9152ee2bae7f" to "msrepl_table_c268110370c2_calls";
do $msrepl$
begin
    if (select r.rolbypassrls from pg_catalog.pg_roles as r where r.rolname = 'msrepl_agent_0123456789ab') then
        alter role "msrepl_table_c268110370c2_9152ee2bae7f" bypassrls;
    end if;
end
$msrepl$;

-- sp_msins_<table>: inserts a row that was inserted at the Publisher.
-- called by: msrepl.apply_<article>_ins
-- tables:    the subscribed table
-- holes:     procedure, parameters, table, columns, overriding, values, computed, signature, owner, caller, comment
--
-- No search_path is set, since that costs a tenth of a call: the agent's session has ours. Parameters take
-- precedence over columns of the same name, and the rights are those of the caller, the table's role.
create function "public"."sp_msins_account"(c1 integer, c2 text, c3 numeric(12,2), c4 uuid) returns void
language plpgsql
as $msrepl$
#variable_conflict use_variable
begin
    insert into "public"."account" as t ("id", "owner", "balance", "msrepl_tran_version")
    values (c1, c2, c3, c4);
end
$msrepl$;
alter function "public"."sp_msins_account"(integer, text, numeric(12,2), uuid) owner to "purchasing";
revoke all on function "public"."sp_msins_account"(integer, text, numeric(12,2), uuid) from public;
grant execute on function "public"."sp_msins_account"(integer, text, numeric(12,2), uuid) to "msrepl_table_c268110370c2_9152ee2bae7f";
comment on function "public"."sp_msins_account"(integer, text, numeric(12,2), uuid) is 'Brings INSERT of account from the Publisher (CALL)';

-- sp_msupd_<table>, SCALL and MCALL: sets the columns whose bit is set.
-- called by: msrepl.apply_<article>_upd
-- tables:    the subscribed table
-- holes:     procedure, parameters, bytes, guard, key_changed, with_key, without_key, command, article, key_json,
--            computed, signature, owner, caller, comment
--
-- Key columns are in the statement only if one of their bits is set, as in SQL Server's newer procedures.
-- No search_path is set: see sp_msins_<table>.
create function "public"."sp_msupd_account"(
    c1 integer default null,
    c2 text default null,
    c3 numeric(12,2) default null,
    c4 uuid default null,
    pkc1 integer default null,
    bitmap bytea default null) returns void
language plpgsql
as $msrepl$
#variable_conflict use_variable
declare
    byte1 constant integer := get_byte(bitmap, 0);
begin
    if byte1 & 1 <> 0 then
        update "public"."account" as t set
            "id" = case byte1 & 1 when 1 then c1 else t."id" end,
            "owner" = case byte1 & 2 when 2 then c2 else t."owner" end,
            "balance" = case byte1 & 4 when 4 then c3 else t."balance" end,
            "msrepl_tran_version" = case byte1 & 8 when 8 then c4 else t."msrepl_tran_version" end
        where t."id" operator(pg_catalog.=) pkc1;
    else
        update "public"."account" as t set
            "owner" = case byte1 & 2 when 2 then c2 else t."owner" end,
            "balance" = case byte1 & 4 when 4 then c3 else t."balance" end,
            "msrepl_tran_version" = case byte1 & 8 when 8 then c4 else t."msrepl_tran_version" end
        where t."id" operator(pg_catalog.=) pkc1;
    end if;
    if not found then
        perform msrepl.sp_msreplraiserror(20598, 'UPDATE', 'account', jsonb_build_object('id', pkc1));
    end if;
end
$msrepl$;
alter function "public"."sp_msupd_account"(integer, text, numeric(12,2), uuid, integer, bytea) owner to "purchasing";
revoke all on function "public"."sp_msupd_account"(integer, text, numeric(12,2), uuid, integer, bytea) from public;
grant execute on function "public"."sp_msupd_account"(integer, text, numeric(12,2), uuid, integer, bytea) to "msrepl_table_c268110370c2_9152ee2bae7f";
comment on function "public"."sp_msupd_account"(integer, text, numeric(12,2), uuid, integer, bytea) is 'Brings UPDATE of account from the Publisher (SCALL)';

-- sp_msupd_<table>, CALL and XCALL, and sp_msdel_<table>: one statement by key, whose row must exist.
-- called by: msrepl.apply_<article>_upd, msrepl.apply_<article>_del
-- tables:    the subscribed table
-- holes:     procedure, parameters, guard, statement, command, article, key_json, computed, signature, owner, caller,
--            comment
--
-- An UPDATE sets every column, including the key: PostgreSQL detects by itself what did not change.
-- No search_path is set: see sp_msins_<table>.
create function "public"."sp_msdel_account"(pkc1 integer) returns void
language plpgsql
as $msrepl$
#variable_conflict use_variable
begin
    delete from "public"."account" as t
        where t."id" operator(pg_catalog.=) pkc1;
    if not found then
        perform msrepl.sp_msreplraiserror(20598, 'DELETE', 'account', jsonb_build_object('id', pkc1));
    end if;
end
$msrepl$;
alter function "public"."sp_msdel_account"(integer) owner to "purchasing";
revoke all on function "public"."sp_msdel_account"(integer) from public;
grant execute on function "public"."sp_msdel_account"(integer) to "msrepl_table_c268110370c2_9152ee2bae7f";
comment on function "public"."sp_msdel_account"(integer) is 'Brings DELETE of account from the Publisher (CALL)';

-- msrepl.apply_<article>_<operation>: passes one command, as it is stored, to the procedure of its article.
-- called by: the distribution agent, for every row of a block
-- tables:    none
-- holes:     function, call_type, article, procedure_text, invocation, runs_as, path_stays, owner, agent, comment
--
-- The inner block changes nothing, so it takes no subtransaction id. No search_path is set: see sp_msins_<table>.
create function "msrepl"."apply_7_ins"(command text) returns void
language plpgsql security definer
as $msrepl$
declare
    path constant text := pg_catalog.current_setting('search_path');
    c "msrepl"."call_7_ins";
    done boolean;
    more text;
begin
-- fragment: raises an error if a function that runs code of a table's owner does not run as its own owner.
-- called by: rendered at the beginning of functions of a table's role
-- tables:    none
-- holes:     role_text
--
-- That code also runs as the function's owner, and can remove SECURITY DEFINER or search_path from the function.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_9152ee2bae7f' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_9152ee2bae7f', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    begin
        c := command::"msrepl"."call_7_ins";
    exception
        when data_exception then
            get stacked diagnostics more = pg_exception_detail;
            perform msrepl.raise_unfit_call('account', '"public"."sp_msins_account"', sqlstate, sqlerrm, more);
    end;
    done := "public"."sp_msins_account"(c.c1, c.c2, c.c3, c.c4) is null;
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered at the end of the functions that agents call for a table
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
alter function "msrepl"."apply_7_ins"(text) owner to "msrepl_table_c268110370c2_9152ee2bae7f";
revoke all on function "msrepl"."apply_7_ins"(text) from public;
grant execute on function "msrepl"."apply_7_ins"(text) to "msrepl_agent_0123456789ab";
comment on function "msrepl"."apply_7_ins"(text) is 'Applies one command for INSERT in account';

-- msrepl.apply_<article>_<operation>: passes one command, as it is stored, to the procedure of its article.
-- called by: the distribution agent, for every row of a block
-- tables:    none
-- holes:     function, call_type, article, procedure_text, invocation, runs_as, path_stays, owner, agent, comment
--
-- The inner block changes nothing, so it takes no subtransaction id. No search_path is set: see sp_msins_<table>.
create function "msrepl"."apply_7_upd"(command text) returns void
language plpgsql security definer
as $msrepl$
declare
    path constant text := pg_catalog.current_setting('search_path');
    c "msrepl"."call_7_upd";
    done boolean;
    more text;
begin
-- fragment: raises an error if a function that runs code of a table's owner does not run as its own owner.
-- called by: rendered at the beginning of functions of a table's role
-- tables:    none
-- holes:     role_text
--
-- That code also runs as the function's owner, and can remove SECURITY DEFINER or search_path from the function.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_9152ee2bae7f' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_9152ee2bae7f', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    begin
        c := command::"msrepl"."call_7_upd";
    exception
        when data_exception then
            get stacked diagnostics more = pg_exception_detail;
            perform msrepl.raise_unfit_call('account', '"public"."sp_msupd_account"', sqlstate, sqlerrm, more);
    end;
    done := "public"."sp_msupd_account"(c.c1, c.c2, c.c3, c.c4, c.pkc1, c.bitmap) is null;
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered at the end of the functions that agents call for a table
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
alter function "msrepl"."apply_7_upd"(text) owner to "msrepl_table_c268110370c2_9152ee2bae7f";
revoke all on function "msrepl"."apply_7_upd"(text) from public;
grant execute on function "msrepl"."apply_7_upd"(text) to "msrepl_agent_0123456789ab";
comment on function "msrepl"."apply_7_upd"(text) is 'Applies one command for UPDATE in account';

-- msrepl.apply_<article>_<operation>: passes one command, as it is stored, to the procedure of its article.
-- called by: the distribution agent, for every row of a block
-- tables:    none
-- holes:     function, call_type, article, procedure_text, invocation, runs_as, path_stays, owner, agent, comment
--
-- The inner block changes nothing, so it takes no subtransaction id. No search_path is set: see sp_msins_<table>.
create function "msrepl"."apply_7_del"(command text) returns void
language plpgsql security definer
as $msrepl$
declare
    path constant text := pg_catalog.current_setting('search_path');
    c "msrepl"."call_7_del";
    done boolean;
    more text;
begin
-- fragment: raises an error if a function that runs code of a table's owner does not run as its own owner.
-- called by: rendered at the beginning of functions of a table's role
-- tables:    none
-- holes:     role_text
--
-- That code also runs as the function's owner, and can remove SECURITY DEFINER or search_path from the function.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_9152ee2bae7f' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_9152ee2bae7f', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    begin
        c := command::"msrepl"."call_7_del";
    exception
        when data_exception then
            get stacked diagnostics more = pg_exception_detail;
            perform msrepl.raise_unfit_call('account', '"public"."sp_msdel_account"', sqlstate, sqlerrm, more);
    end;
    done := "public"."sp_msdel_account"(c.pkc1) is null;
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered at the end of the functions that agents call for a table
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
alter function "msrepl"."apply_7_del"(text) owner to "msrepl_table_c268110370c2_9152ee2bae7f";
revoke all on function "msrepl"."apply_7_del"(text) from public;
grant execute on function "msrepl"."apply_7_del"(text) to "msrepl_agent_0123456789ab";
comment on function "msrepl"."apply_7_del"(text) is 'Applies one command for DELETE in account';

-- msrepl.set_<article>_<operation>: makes a run of calls for one article and operation in one statement.
-- called by: the distribution agent
-- tables:    the subscribed table; msrepl.msreplication_procedures
-- holes:     function, article_id, operation, call_type, statement, computed, runs_as, path_stays, owner, agent, comment
--
-- It does what the default procedure would do call by call, or nothing at all and returns -1: a row is missing, a key
-- occurs twice, a unique value is taken (even if another row is about to give it up), a call does not fit, or the
-- procedure was replaced. The calls must then be made one by one, which reports what is wrong with one of them.
create function "msrepl"."set_7_ins"(commands text[]) returns bigint
language plpgsql security definer
as $msrepl$
#variable_conflict use_variable
declare
    path constant text := pg_catalog.current_setting('search_path');
    rows "msrepl"."call_7_ins"[];
    done bigint;
begin
-- fragment: raises an error if a function that runs code of a table's owner does not run as its own owner.
-- called by: rendered at the beginning of functions of a table's role
-- tables:    none
-- holes:     role_text
--
-- That code also runs as the function's owner, and can remove SECURITY DEFINER or search_path from the function.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_9152ee2bae7f' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_9152ee2bae7f', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    if not msrepl.is_default_procedure(7, 'ins') then
        return -1;
    end if;
    begin
        rows := commands::"msrepl"."call_7_ins"[];
        insert into "public"."account" as t ("id", "owner", "balance", "msrepl_tran_version")
        select c.c1, c.c2, c.c3, c.c4
        from unnest(rows) as c;
        get diagnostics done = row_count;
        if done <> cardinality(rows) then
            raise exception using errcode = 'no_data_found';
        end if;
    exception
        when no_data_found or unique_violation or exclusion_violation or data_exception then
            return -1;
    end;
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered at the end of the functions that agents call for a table
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
alter function "msrepl"."set_7_ins"(text[]) owner to "msrepl_table_c268110370c2_9152ee2bae7f";
revoke all on function "msrepl"."set_7_ins"(text[]) from public;
grant execute on function "msrepl"."set_7_ins"(text[]) to "msrepl_agent_0123456789ab";
comment on function "msrepl"."set_7_ins"(text[]) is 'Applies a run of commands for INSERT in account';

-- msrepl.set_<article>_upd: makes a run of calls for one article's UPDATE in one statement.
-- called by: the distribution agent
-- tables:    the subscribed table; msrepl.msreplication_procedures; catalogs
-- holes:     function, article_id, table_text, call_type, key, same, key_stays, statement, computed, runs_as,
--            path_stays, owner, agent, comment
--
-- Like msrepl.set_<article>_<operation> for INSERT and DELETE. Of several calls that set the same columns of one
-- row, only the last is made: intermediate values are visible only to a trigger or a rule that fires for agents;
-- if there is one, an omitted call is a reason for -1. So is a call that changes the key: others for the same
-- key may be meant for another row. The remaining calls for one row, which set different columns, are made in
-- successive turns. Rows are updated in the order of the key, so that each page of the table is visited once.
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
-- fragment: raises an error if a function that runs code of a table's owner does not run as its own owner.
-- called by: rendered at the beginning of functions of a table's role
-- tables:    none
-- holes:     role_text
--
-- That code also runs as the function's owner, and can remove SECURITY DEFINER or search_path from the function.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_9152ee2bae7f' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_9152ee2bae7f', current_user
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
            update "public"."account" as t set
            "owner" = case get_byte(c.bitmap, 0) & 2 when 2 then c.c2 else t."owner" end,
            "balance" = case get_byte(c.bitmap, 0) & 4 when 4 then c.c3 else t."balance" end,
            "msrepl_tran_version" = case get_byte(c.bitmap, 0) & 8 when 8 then c.c4 else t."msrepl_tran_version" end
        from due as c
        where t."id" operator(pg_catalog.=) c.pkc1 and c.place = turn and (get_byte(c.bitmap, 0) & 1 = 0 or row(c.c1)::text is not distinct from row(c.pkc1)::text)
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
            msrepl.fires_for_agents('"public"."account"') or exists (select from unnest(rows) as c where not ((get_byte(c.bitmap, 0) & 1 = 0 or row(c.c1)::text is not distinct from row(c.pkc1)::text)))
        ) then
            raise exception using errcode = 'no_data_found';
        end if;
    exception
        when no_data_found or unique_violation or exclusion_violation or data_exception then
            return -1;
    end;
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered at the end of the functions that agents call for a table
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
alter function "msrepl"."set_7_upd"(text[]) owner to "msrepl_table_c268110370c2_9152ee2bae7f";
revoke all on function "msrepl"."set_7_upd"(text[]) from public;
grant execute on function "msrepl"."set_7_upd"(text[]) to "msrepl_agent_0123456789ab";
comment on function "msrepl"."set_7_upd"(text[]) is 'Applies a run of commands for UPDATE in account';

-- msrepl.set_<article>_<operation>: makes a run of calls for one article and operation in one statement.
-- called by: the distribution agent
-- tables:    the subscribed table; msrepl.msreplication_procedures
-- holes:     function, article_id, operation, call_type, statement, computed, runs_as, path_stays, owner, agent, comment
--
-- It does what the default procedure would do call by call, or nothing at all and returns -1: a row is missing, a key
-- occurs twice, a unique value is taken (even if another row is about to give it up), a call does not fit, or the
-- procedure was replaced. The calls must then be made one by one, which reports what is wrong with one of them.
create function "msrepl"."set_7_del"(commands text[]) returns bigint
language plpgsql security definer
as $msrepl$
#variable_conflict use_variable
declare
    path constant text := pg_catalog.current_setting('search_path');
    rows "msrepl"."call_7_del"[];
    done bigint;
begin
-- fragment: raises an error if a function that runs code of a table's owner does not run as its own owner.
-- called by: rendered at the beginning of functions of a table's role
-- tables:    none
-- holes:     role_text
--
-- That code also runs as the function's owner, and can remove SECURITY DEFINER or search_path from the function.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_9152ee2bae7f' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_9152ee2bae7f', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    if not msrepl.is_default_procedure(7, 'del') then
        return -1;
    end if;
    begin
        rows := commands::"msrepl"."call_7_del"[];
        delete from "public"."account" as t
        using unnest(rows) as c
        where t."id" operator(pg_catalog.=) c.pkc1;
        get diagnostics done = row_count;
        if done <> cardinality(rows) then
            raise exception using errcode = 'no_data_found';
        end if;
    exception
        when no_data_found or unique_violation or exclusion_violation or data_exception then
            return -1;
    end;
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered at the end of the functions that agents call for a table
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
alter function "msrepl"."set_7_del"(text[]) owner to "msrepl_table_c268110370c2_9152ee2bae7f";
revoke all on function "msrepl"."set_7_del"(text[]) from public;
grant execute on function "msrepl"."set_7_del"(text[]) to "msrepl_agent_0123456789ab";
comment on function "msrepl"."set_7_del"(text[]) is 'Applies a run of commands for DELETE in account';

-- msrepl.net_<article>: makes updates that block each other in one statement: unique values are freed first.
-- called by: msrepl.apply_net
-- tables:    the subscribed table; msrepl.msreplication_procedures
-- holes:     function, article_id, table, table_text, call_type, match, columns, values, computed, runs_as, path_stays, owner, agent,
--            comment
--
-- The rows are deleted and inserted again in one statement, with the values that only this Subscriber has, so that at
-- its end nothing refers to a missing row. -1: this is not allowed, because a referential action would follow the
-- delete, or because the default procedure was replaced.
create function "msrepl"."net_7"(commands text[]) returns bigint
language plpgsql security definer
as $msrepl$
#variable_conflict use_variable
declare
    path constant text := pg_catalog.current_setting('search_path');
    rows "msrepl"."call_7_upd"[];
    done bigint;
begin
-- fragment: raises an error if a function that runs code of a table's owner does not run as its own owner.
-- called by: rendered at the beginning of functions of a table's role
-- tables:    none
-- holes:     role_text
--
-- That code also runs as the function's owner, and can remove SECURITY DEFINER or search_path from the function.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_9152ee2bae7f' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_9152ee2bae7f', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    if not msrepl.is_default_procedure(7, 'upd') or exists (
        select from pg_catalog.pg_trigger as k
        join pg_catalog.pg_constraint as r on r.oid = k.tgconstraint
        where k.tgrelid = '"public"."account"'::regclass and k.tgenabled in ('A', 'R') and r.contype = 'f'
          and r.confrelid = k.tgrelid and r.confdeltype in ('c', 'n', 'd')
    ) then
        return -1;
    end if;
    rows := commands::"msrepl"."call_7_upd"[];
    with gone as (
        delete from "public"."account" as t using unnest(rows) as c where t."id" operator(pg_catalog.=) c.pkc1 returning t as held, c as call
    ), everything as (
        select array_agg(held) as held, array_agg(call) as calls from gone
    ), pairs as (
        select held[place] as t, calls[place] as c
        from everything, generate_subscripts(held, 1) as place
    )
    insert into "public"."account" ("id", "owner", "balance", "msrepl_tran_version") overriding system value
    select case get_byte((c).bitmap, 0) & 1 when 1 then (c).c1 else (t)."id" end, case get_byte((c).bitmap, 0) & 2 when 2 then (c).c2 else (t)."owner" end, case get_byte((c).bitmap, 0) & 4 when 4 then (c).c3 else (t)."balance" end, case get_byte((c).bitmap, 0) & 8 when 8 then (c).c4 else (t)."msrepl_tran_version" end from pairs;
    get diagnostics done = row_count;
    if done <> cardinality(rows) then
        return -1;
    end if;
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered at the end of the functions that agents call for a table
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
alter function "msrepl"."net_7"(text[]) owner to "msrepl_table_c268110370c2_9152ee2bae7f";
revoke all on function "msrepl"."net_7"(text[]) from public;
grant execute on function "msrepl"."net_7"(text[]) to "msrepl_agent_0123456789ab";
comment on function "msrepl"."net_7"(text[]) is 'Makes updates of account at once that are in each other''s way';

-- The row of an article's procedure: what is called, and what unsubscribing drops.
-- called by: twopc.subscriber.propagation
-- tables:    msrepl.msreplication_procedures
-- holes:     article_id, operation, schema, table, format, shape, procedure, signature, is_default, agent
insert into msrepl.msreplication_procedures
    (article_id, operation, dest_schema, article, format, shape, procedure, signature, is_default, digest, agent)
values (7, 'ins', 'public', 'account', 'CALL', '161f6ea4e2fe', '"public"."sp_msins_account"', '"public"."sp_msins_account"(integer, text, numeric(12,2), uuid)', true,
        case when true then (select md5(prosrc) from pg_proc where oid = to_regprocedure('"public"."sp_msins_account"(integer, text, numeric(12,2), uuid)')) end,
        'msrepl_agent_0123456789ab');

-- The row of an article's procedure: what is called, and what unsubscribing drops.
-- called by: twopc.subscriber.propagation
-- tables:    msrepl.msreplication_procedures
-- holes:     article_id, operation, schema, table, format, shape, procedure, signature, is_default, agent
insert into msrepl.msreplication_procedures
    (article_id, operation, dest_schema, article, format, shape, procedure, signature, is_default, digest, agent)
values (7, 'upd', 'public', 'account', 'SCALL', '161f6ea4e2fe', '"public"."sp_msupd_account"', '"public"."sp_msupd_account"(integer, text, numeric(12,2), uuid, integer, bytea)', true,
        case when true then (select md5(prosrc) from pg_proc where oid = to_regprocedure('"public"."sp_msupd_account"(integer, text, numeric(12,2), uuid, integer, bytea)')) end,
        'msrepl_agent_0123456789ab');

-- The row of an article's procedure: what is called, and what unsubscribing drops.
-- called by: twopc.subscriber.propagation
-- tables:    msrepl.msreplication_procedures
-- holes:     article_id, operation, schema, table, format, shape, procedure, signature, is_default, agent
insert into msrepl.msreplication_procedures
    (article_id, operation, dest_schema, article, format, shape, procedure, signature, is_default, digest, agent)
values (7, 'del', 'public', 'account', 'CALL', '161f6ea4e2fe', '"public"."sp_msdel_account"', '"public"."sp_msdel_account"(integer)', true,
        case when true then (select md5(prosrc) from pg_proc where oid = to_regprocedure('"public"."sp_msdel_account"(integer)')) end,
        'msrepl_agent_0123456789ab');

drop function if exists "msrepl"."apply_7_ins"(text);

drop function if exists "msrepl"."apply_7_upd"(text);

drop function if exists "msrepl"."apply_7_del"(text);

drop function if exists "msrepl"."set_7_ins"(text[]);

drop function if exists "msrepl"."set_7_upd"(text[]);

drop function if exists "msrepl"."set_7_del"(text[]);

drop function if exists "msrepl"."net_7"(text[]);

drop type if exists "msrepl"."call_7_ins";

drop type if exists "msrepl"."call_7_upd";

drop type if exists "msrepl"."call_7_del";

delete from msrepl.msreplication_procedures where article_id = 7;
