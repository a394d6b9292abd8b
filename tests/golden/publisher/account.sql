-- mssync_shape_<table>: the only shape of rows that the sync procedures of an article accept.
-- called by: first parameter of the sync procedures
-- tables:    none
-- holes:     type, shape, owner, comment
--
-- It is a type because the server reads arguments from left to right: rows of another shape are not even parsed.
create type "msrepl"."mssync_shape_account" as enum ('161f6ea4e2fe');
alter type "msrepl"."mssync_shape_account" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."mssync_shape_account" from public;
comment on type "msrepl"."mssync_shape_account" is 'Shape of the rows of account that a call brings';

-- mssync_<what>_row_<table>: the type of one article's rows as a Subscriber sends them.
-- called by: parameters of the sync procedures
-- tables:    none
-- holes:     type, attributes, owner, comment
create type "msrepl"."mssync_ins_row_account" as ("n1" integer, "n2" text, "n3" numeric(12,2), "n4" uuid);
alter type "msrepl"."mssync_ins_row_account" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."mssync_ins_row_account" from public;
comment on type "msrepl"."mssync_ins_row_account" is 'Rows of account on their way from a Subscriber';

-- mssync_<what>_row_<table>: the type of one article's rows as a Subscriber sends them.
-- called by: parameters of the sync procedures
-- tables:    none
-- holes:     type, attributes, owner, comment
create type "msrepl"."mssync_old_row_account" as ("k1" integer, "v" uuid);
alter type "msrepl"."mssync_old_row_account" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."mssync_old_row_account" from public;
comment on type "msrepl"."mssync_old_row_account" is 'Rows of account on their way from a Subscriber';

-- mssync_<what>_row_<table>: the type of one article's rows as a Subscriber sends them.
-- called by: parameters of the sync procedures
-- tables:    none
-- holes:     type, attributes, owner, comment
create type "msrepl"."mssync_del_row_account" as ("o1" integer, "o2" text, "o3" numeric(12,2), "o4" uuid);
alter type "msrepl"."mssync_del_row_account" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."mssync_del_row_account" from public;
comment on type "msrepl"."mssync_del_row_account" is 'Rows of account on their way from a Subscriber';

-- mssync_change_ins_<table>: applies a Subscriber's INSERT if no unique key is taken.
-- called by: sp_mssync_ins_<table>
-- tables:    the published table
-- holes:     function, signature, rows, runs_as, before, opened, closed, table, columns, new_values,
--            new_names, clashes, article, only_key, denied, tables, after, owner, caller, comment
--
-- A plain INSERT, which waits for a row in doubt and, unlike ON CONFLICT, supports deferrable constraints. The
-- rows with which it clashed are looked up only after it failed. Parameters have no names: PL/pgSQL can be set to
-- refuse variables that shadow them.
create or replace function "msrepl"."mssync_change_ins_account"(text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    "new_rows" "msrepl"."mssync_ins_row_account"[];
    sent integer;
    done integer;
    waited boolean := false;
    violated text;
    detail text;
    bad record;
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
    new_rows := $1;
    sent := cardinality(new_rows);
    
    loop
        begin
            insert into "public"."account" as t ("id", "owner", "balance", "msrepl_tran_version") overriding system value
            select "r"."n1", "r"."n2", "r"."n3", "r"."n4"
            from pg_catalog.unnest(sync.new_rows) as r("n1", "n2", "n3", "n4");
            get diagnostics done = row_count;
            exit;
        exception
            when unique_violation or exclusion_violation then
                get stacked diagnostics violated = constraint_name;
                select array_agg(distinct c.name) as names,
                       (array_agg(c.key))[1] as key, (array_agg(c.sent))[1] as sent,
                       (array_agg(c.held))[1] as held, (array_agg(c.image))[1] as image
                into bad
                from (
                    select 'account_pkey', jsonb_build_object('id', "r"."n1"), r."n4"::text,
                    case when t."inside" then t."c4"::text end, case when t."inside" then (select to_jsonb(shown.*) from (select "t"."c1" as "id", "t"."c2" as "owner", "t"."c3" as "balance", "t"."c4" as "msrepl_tran_version") as shown) end
                from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4") join (select "account"."id", "account"."owner", "account"."balance", "account"."msrepl_tran_version", true from "public"."account" as "account") as t("c1", "c2", "c3", "c4", "inside") on "t"."c1" operator(pg_catalog.=) "r"."n1"
                ) as c(name, key, sent, held, image)
                group by c.key
                order by count(distinct c.name) desc
                limit 1;
                perform msrepl.raise_conflict(
                    case when cardinality(bad.names) > 1 then 'multiple_unique' else 'insert_exists' end,
                    '23505', 20515, 'account', coalesce(bad.key, case when sent = 1 then (select jsonb_build_object('id', "r"."n1") from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4")) end), bad.sent, bad.held, bad.image,
                    format('a row of %s with the same key is at the Publisher already (%s)',
                           'account', array_to_string(coalesce(bad.names, array[violated]), ', ')),
                    coalesce(bad.names, array[violated]));
            when foreign_key_violation then
                get stacked diagnostics violated = constraint_name, detail = pg_exception_detail;
                if waited then
                    perform msrepl.raise_conflict(
                        'fk_violation', '23503', 20515, 'account', case when sent = 1 then (select jsonb_build_object('id', "r"."n1") from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4")) end, null, null, null,
                        sqlerrm || coalesce(' (' || detail || ')', ''), array[violated]);
                end if;
                perform msrepl.await_branches(array['"public"."account"'::regclass]::oid[]);
                waited := true;
        end;
    end loop;
    if done <> sent then
        perform msrepl.raise_conflict(
            'suppressed', '09000', 20515, 'account', case when sent = 1 then (select jsonb_build_object('id', "r"."n1") from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4")) end, null, null, null,
            format('a trigger of the Publisher kept %s of %s rows from being inserted into %s',
                   sent - done, sent, 'account'));
    end if;
    
end
$msrepl$;
alter function "msrepl"."mssync_change_ins_account"(text) owner to "msrepl_table_c268110370c2_9152ee2bae7f";
revoke all on function "msrepl"."mssync_change_ins_account"(text) from public;
grant execute on function "msrepl"."mssync_change_ins_account"(text) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."mssync_change_ins_account"(text) is 'Applies the INSERT of a Subscriber to account';

-- sp_mssync_<operation>_<table>: writes the branch marker, and has a Subscriber's rows applied.
-- called by: a trigger of a Subscriber, over its link
-- tables:    msrepl.branch_marker; the published table, by mssync_change_<operation>_<table>
-- holes:     procedure, parameters, change, arguments, path_is_kept, signature, owner, comment
--
-- The rows remain text until then: types may be a user's too, and their checks must not run with the rights
-- of the link.
create or replace procedure "msrepl"."sp_mssync_ins_account"(shape "msrepl"."mssync_shape_account", branch text, sites text[], "new_rows" text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if $2 is not null then
        insert into msrepl.branch_marker (gid, xid, participants, originator)
        values ($2, pg_current_xact_id(), $3, session_user);
    end if;
    perform "msrepl"."mssync_change_ins_account"($4);
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered after calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function itself sets, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 'account'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
end
$msrepl$;
alter procedure "msrepl"."sp_mssync_ins_account"("msrepl"."mssync_shape_account", text, text[], text) owner to "msrepl_owner_0123456789ab";
revoke all on procedure "msrepl"."sp_mssync_ins_account"("msrepl"."mssync_shape_account", text, text[], text) from public;
comment on procedure "msrepl"."sp_mssync_ins_account"("msrepl"."mssync_shape_account", text, text[], text) is 'Applies the INSERT of a Subscriber to account';

-- mssync_change_upd_<table>: applies a Subscriber's UPDATE if no row has changed since the Subscriber received it.
-- called by: sp_mssync_upd_<table>
-- tables:    the published table
-- holes:     function, signature, rows, runs_as, before, opened, closed, table, assignments, old_names,
--            new_names, key_match, old_version, tables, clashes, article, only_key, denied, key_json,
--            held_version, row_json, held, inside, held_match, new_key_match, new_version, after, salt,
--            owner, caller, comment
--
-- Old and new rows are paired by position. The first UPDATE does not wait for a branch that is committed at the
-- Subscriber but still prepared here: the row in its snapshot fails the condition on the row version before any
-- lock is requested. On a mismatch, the rows are therefore locked by key, which does wait, and the UPDATE is
-- retried once. Rows that such a branch has inserted cannot be locked at all; then the branch itself is waited
-- for (msrepl.await_branches). Parameters have no names, for the reason given in mssync_change_ins_<table>.
create or replace function "msrepl"."mssync_change_upd_account"(text, text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    "old_rows" "msrepl"."mssync_old_row_account"[];
    "new_rows" "msrepl"."mssync_ins_row_account"[];
    sent integer;
    kept integer := 0;
    again integer;
    done integer;
    waited boolean := false;
    violated text;
    detail text;
    bad record;
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
    old_rows := $1;
    new_rows := $2;
    sent := cardinality(old_rows);
    
    loop
        begin
            update "public"."account" as t
            set "id" = "r"."n1", "owner" = "r"."n2", "balance" = "r"."n3", "msrepl_tran_version" = "r"."n4"
            from rows from (pg_catalog.unnest(sync.old_rows), pg_catalog.unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4")
            where "t"."id" operator(pg_catalog.=) "r"."k1" and t.msrepl_tran_version operator(pg_catalog.=) r."v";
            get diagnostics again = row_count;
            done := kept + again;
            exit when done = sent;
            perform 1
            from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4")
            join "public"."account" as t on "t"."id" operator(pg_catalog.=) "r"."k1"
            for update of t;
            update "public"."account" as t
            set "id" = "r"."n1", "owner" = "r"."n2", "balance" = "r"."n3", "msrepl_tran_version" = "r"."n4"
            from rows from (pg_catalog.unnest(sync.old_rows), pg_catalog.unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4")
            where "t"."id" operator(pg_catalog.=) "r"."k1" and t.msrepl_tran_version operator(pg_catalog.=) r."v";
            get diagnostics again = row_count;
            done := done + again;
            exit when done = sent or waited;
            perform msrepl.await_branches(array['"public"."account"'::regclass]::oid[]);
            waited := true;
            kept := done;
        exception
            when unique_violation or exclusion_violation then
                get stacked diagnostics violated = constraint_name;
                select array_agg(distinct c.name) as names,
                       (array_agg(c.key))[1] as key, (array_agg(c.sent))[1] as sent,
                       (array_agg(c.held))[1] as held, (array_agg(c.image))[1] as image
                into bad
                from (
                    select 'account_pkey', jsonb_build_object('id', "r"."k1"), r."v"::text,
                    case when t."inside" then t."c4"::text end, case when t."inside" then (select to_jsonb(shown.*) from (select "t"."c1" as "id", "t"."c2" as "owner", "t"."c3" as "balance", "t"."c4" as "msrepl_tran_version") as shown) end
                from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4") join (select "account"."id", "account"."owner", "account"."balance", "account"."msrepl_tran_version", true from "public"."account" as "account") as t("c1", "c2", "c3", "c4", "inside") on "t"."c1" operator(pg_catalog.=) "r"."n1"
                where not exists (select from unnest(sync.old_rows) as o("k1", "v") where "t"."c1" operator(pg_catalog.=) "o"."k1")
                ) as c(name, key, sent, held, image)
                group by c.key
                order by count(distinct c.name) desc
                limit 1;
                perform msrepl.raise_conflict(
                    case when cardinality(bad.names) > 1 then 'multiple_unique' else 'update_exists' end,
                    '23505', 20515, 'account', coalesce(bad.key, case when sent = 1 then (select jsonb_build_object('id', "r"."k1") from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4")) end), bad.sent, bad.held, bad.image,
                    format('the UPDATE gives a row of %s a key that is taken at the Publisher (%s)',
                           'account', array_to_string(coalesce(bad.names, array[violated]), ', ')),
                    coalesce(bad.names, array[violated]));
            when foreign_key_violation then
                get stacked diagnostics violated = constraint_name, detail = pg_exception_detail;
                if waited then
                    perform msrepl.raise_conflict(
                        'fk_violation', '23503', 20515, 'account', case when sent = 1 then (select jsonb_build_object('id', "r"."k1") from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4")) end, null, null, null,
                        sqlerrm || coalesce(' (' || detail || ')', ''), array[violated]);
                end if;
                perform msrepl.await_branches(array['"public"."account"'::regclass]::oid[]);
                waited := true;
        end;
    end loop;
    if done <> sent then
        select jsonb_build_object('id', "r"."k1") as key, r."v"::text as sent_version,
               t."c4"::text as held_version, case when t."inside" then (select to_jsonb(shown.*) from (select "t"."c1" as "id", "t"."c2" as "owner", "t"."c3" as "balance", "t"."c4" as "msrepl_tran_version") as shown) end as image
        into bad
        from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4")
        left join (select "account"."id", "account"."owner", "account"."balance", "account"."msrepl_tran_version", true from "public"."account" as "account") as t("c1", "c2", "c3", "c4", "inside") on t."inside" and "t"."c1" operator(pg_catalog.=) "r"."k1"
        where not exists (
            select from "public"."account" as u
            where "u"."id" operator(pg_catalog.=) "r"."n1" and u.msrepl_tran_version in (
                r."n4", md5(r."n4"::text || extract(epoch from now()) || ' ' || pg_backend_pid())::uuid))
        limit 1;
        if bad.sent_version = bad.held_version then
            perform msrepl.raise_conflict(
                'suppressed', '09000', 20515, 'account', bad.key, bad.sent_version, bad.held_version, bad.image,
                format('a trigger of the Publisher kept %s of %s rows of %s from being updated',
                       sent - done, sent, 'account'));
        end if;
        perform msrepl.raise_conflict(
            case when bad.held_version is null then 'row_missing' else 'version_mismatch' end,
            '40001', 20515, 'account', bad.key, bad.sent_version, bad.held_version, bad.image,
            format('rows of %s do not match between Publisher and Subscriber: %s of %s rows of the UPDATE were refused',
                   'account', sent - done, sent));
    end if;
    
end
$msrepl$;
alter function "msrepl"."mssync_change_upd_account"(text, text) owner to "msrepl_table_c268110370c2_9152ee2bae7f";
revoke all on function "msrepl"."mssync_change_upd_account"(text, text) from public;
grant execute on function "msrepl"."mssync_change_upd_account"(text, text) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."mssync_change_upd_account"(text, text) is 'Applies the UPDATE of a Subscriber to account';

-- sp_mssync_<operation>_<table>: writes the branch marker, and has a Subscriber's rows applied.
-- called by: a trigger of a Subscriber, over its link
-- tables:    msrepl.branch_marker; the published table, by mssync_change_<operation>_<table>
-- holes:     procedure, parameters, change, arguments, path_is_kept, signature, owner, comment
--
-- The rows remain text until then: types may be a user's too, and their checks must not run with the rights
-- of the link.
create or replace procedure "msrepl"."sp_mssync_upd_account"(shape "msrepl"."mssync_shape_account", branch text, sites text[], "old_rows" text, "new_rows" text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if $2 is not null then
        insert into msrepl.branch_marker (gid, xid, participants, originator)
        values ($2, pg_current_xact_id(), $3, session_user);
    end if;
    perform "msrepl"."mssync_change_upd_account"($4, $5);
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered after calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function itself sets, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 'account'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
end
$msrepl$;
alter procedure "msrepl"."sp_mssync_upd_account"("msrepl"."mssync_shape_account", text, text[], text, text) owner to "msrepl_owner_0123456789ab";
revoke all on procedure "msrepl"."sp_mssync_upd_account"("msrepl"."mssync_shape_account", text, text[], text, text) from public;
comment on procedure "msrepl"."sp_mssync_upd_account"("msrepl"."mssync_shape_account", text, text[], text, text) is 'Applies the UPDATE of a Subscriber to account';

-- mssync_change_del_<table>: applies a Subscriber's DELETE if no published value has changed.
-- called by: sp_mssync_del_<table>
-- tables:    the published table
-- holes:     function, signature, rows, runs_as, before, opened, closed, table, old_names, key_match,
--            same, tables, denied, article, only_key, key_json, old_version, held_version, row_json, held,
--            inside, held_match, owner, caller, comment
--
-- "A WHERE clause that qualifies the current row with values from the deleted table" (seed 002). On a
-- mismatch, the rows are locked by key and the DELETE is retried once, as in mssync_change_upd_<table>.
-- Parameters have no names, for the reason given in mssync_change_ins_<table>.
create or replace function "msrepl"."mssync_change_del_account"(text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    "old_rows" "msrepl"."mssync_del_row_account"[];
    sent integer;
    kept integer := 0;
    again integer;
    done integer;
    waited boolean := false;
    violated text;
    detail text;
    bad record;
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
    old_rows := $1;
    sent := cardinality(old_rows);
    
    loop
        begin
            delete from "public"."account" as t
            using pg_catalog.unnest(sync.old_rows) as r("o1", "o2", "o3", "o4")
            where "t"."id" operator(pg_catalog.=) "r"."o1" and ("t"."owner" operator(pg_catalog.=) "r"."o2" or "t"."owner" is null and "r"."o2" is null)
            and ("t"."balance" operator(pg_catalog.=) "r"."o3" or "t"."balance" is null and "r"."o3" is null)
            and ("t"."msrepl_tran_version" operator(pg_catalog.=) "r"."o4" or "t"."msrepl_tran_version" is null and "r"."o4" is null);
            get diagnostics again = row_count;
            done := kept + again;
            if done <> sent then
                perform 1
                from unnest(sync.old_rows) as r("o1", "o2", "o3", "o4")
                join "public"."account" as t on "t"."id" operator(pg_catalog.=) "r"."o1"
                for update of t;
                delete from "public"."account" as t
                using pg_catalog.unnest(sync.old_rows) as r("o1", "o2", "o3", "o4")
                where "t"."id" operator(pg_catalog.=) "r"."o1" and ("t"."owner" operator(pg_catalog.=) "r"."o2" or "t"."owner" is null and "r"."o2" is null)
            and ("t"."balance" operator(pg_catalog.=) "r"."o3" or "t"."balance" is null and "r"."o3" is null)
            and ("t"."msrepl_tran_version" operator(pg_catalog.=) "r"."o4" or "t"."msrepl_tran_version" is null and "r"."o4" is null);
                get diagnostics again = row_count;
                done := done + again;
            end if;
            exit when done = sent or waited;
            perform msrepl.await_branches(array['"public"."account"'::regclass]::oid[]);
            waited := true;
            kept := done;
        exception
            when foreign_key_violation then
                get stacked diagnostics violated = constraint_name, detail = pg_exception_detail;
                if waited then
                    perform msrepl.raise_conflict(
                        'fk_violation', '23503', 20515, 'account', case when sent = 1 then (select jsonb_build_object('id', "r"."o1") from unnest(sync.old_rows) as r("o1", "o2", "o3", "o4")) end, null, null, null,
                        sqlerrm || coalesce(' (' || detail || ')', ''), array[violated]);
                end if;
                perform msrepl.await_branches(array['"public"."account"'::regclass]::oid[]);
                waited := true;
        end;
    end loop;
    if done <> sent then
        -- a row that still exists is stale; if none does and several rows were sent, the missing row
        -- cannot be distinguished from those that this call deleted
        select jsonb_build_object('id', "r"."o1") as key, r."o4"::text as sent_version,
               t."c4"::text as held_version, case when t."inside" then (select to_jsonb(shown.*) from (select "t"."c1" as "id", "t"."c2" as "owner", "t"."c3" as "balance", "t"."c4" as "msrepl_tran_version") as shown) end as image
        into bad
        from unnest(sync.old_rows) as r("o1", "o2", "o3", "o4")
        left join (select "account"."id", "account"."owner", "account"."balance", "account"."msrepl_tran_version", true from "public"."account" as "account") as t("c1", "c2", "c3", "c4", "inside") on t."inside" and "t"."c1" operator(pg_catalog.=) "r"."o1"
        where t."c4" is not null or sync.sent = 1
        limit 1;
        if exists (
            select from unnest(sync.old_rows) as r("o1", "o2", "o3", "o4") join "public"."account" as t on "t"."id" operator(pg_catalog.=) "r"."o1" and ("t"."owner" operator(pg_catalog.=) "r"."o2" or "t"."owner" is null and "r"."o2" is null)
            and ("t"."balance" operator(pg_catalog.=) "r"."o3" or "t"."balance" is null and "r"."o3" is null)
            and ("t"."msrepl_tran_version" operator(pg_catalog.=) "r"."o4" or "t"."msrepl_tran_version" is null and "r"."o4" is null)
        ) then
            perform msrepl.raise_conflict(
                'suppressed', '09000', 20515, 'account', bad.key, bad.sent_version, bad.held_version, bad.image,
                format('a trigger of the Publisher kept %s of %s rows of %s from being deleted',
                       sent - done, sent, 'account'));
        end if;
        perform msrepl.raise_conflict(
            case when bad.held_version is null then 'row_missing' else 'delete_stale' end,
            '40001', 20515, 'account', bad.key, bad.sent_version, bad.held_version, bad.image,
            format('rows of %s do not match between Publisher and Subscriber: %s of %s rows of the DELETE were refused',
                   'account', sent - done, sent));
    end if;
end
$msrepl$;
alter function "msrepl"."mssync_change_del_account"(text) owner to "msrepl_table_c268110370c2_9152ee2bae7f";
revoke all on function "msrepl"."mssync_change_del_account"(text) from public;
grant execute on function "msrepl"."mssync_change_del_account"(text) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."mssync_change_del_account"(text) is 'Applies the DELETE of a Subscriber to account';

-- sp_mssync_<operation>_<table>: writes the branch marker, and has a Subscriber's rows applied.
-- called by: a trigger of a Subscriber, over its link
-- tables:    msrepl.branch_marker; the published table, by mssync_change_<operation>_<table>
-- holes:     procedure, parameters, change, arguments, path_is_kept, signature, owner, comment
--
-- The rows remain text until then: types may be a user's too, and their checks must not run with the rights
-- of the link.
create or replace procedure "msrepl"."sp_mssync_del_account"(shape "msrepl"."mssync_shape_account", branch text, sites text[], "old_rows" text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if $2 is not null then
        insert into msrepl.branch_marker (gid, xid, participants, originator)
        values ($2, pg_current_xact_id(), $3, session_user);
    end if;
    perform "msrepl"."mssync_change_del_account"($4);
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered after calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function itself sets, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 'account'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
end
$msrepl$;
alter procedure "msrepl"."sp_mssync_del_account"("msrepl"."mssync_shape_account", text, text[], text) owner to "msrepl_owner_0123456789ab";
revoke all on procedure "msrepl"."sp_mssync_del_account"("msrepl"."mssync_shape_account", text, text[], text) from public;
comment on procedure "msrepl"."sp_mssync_del_account"("msrepl"."mssync_shape_account", text, text[], text) is 'Applies the DELETE of a Subscriber to account';

-- ~sp_mssync_upd_trig_<table>: the trigger that gives the rows of one published table their versions.
-- called by: every INSERT and UPDATE of the table
-- tables:    the published table
-- holes:     trigger, table, role, more
--
-- ENABLE ALWAYS: a change made under session_replication_role = replica would otherwise keep the row
-- version, and a Subscriber's stale copy would pass the check.
create or replace trigger "~sp_mssync_upd_trig_account"
    before insert or update on "public"."account"
    for each row execute function msrepl.sp_mssync_upd_trig('msrepl_table_c268110370c2_9152ee2bae7f');
alter table "public"."account" enable always trigger "~sp_mssync_upd_trig_account";

-- trg_mssync_truncate_<table>: refuses TRUNCATE of one replicated table.
-- called by: every TRUNCATE of the table
-- tables:    none
-- holes:     trigger, table
create or replace trigger "trg_mssync_truncate_account"
    before truncate on "public"."account"
    for each statement execute function msrepl.refuse_truncate();

drop routine if exists "msrepl"."sp_mssync_ins_account";

drop routine if exists "msrepl"."sp_mssync_upd_account";

drop routine if exists "msrepl"."sp_mssync_del_account";

drop routine if exists "msrepl"."sp_mssync_gen_account";

drop routine if exists "msrepl"."mssync_change_ins_account";

drop routine if exists "msrepl"."mssync_change_upd_account";

drop routine if exists "msrepl"."mssync_change_del_account";

drop routine if exists "msrepl"."mssync_make_account";

drop type if exists "msrepl"."mssync_ins_row_account";

drop type if exists "msrepl"."mssync_old_row_account";

drop type if exists "msrepl"."mssync_del_row_account";

drop type if exists "msrepl"."mssync_shape_account";
