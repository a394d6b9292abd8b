-- mssync_shape_<table>: the only shape of rows that the sync procedures of an article accept.
-- called by: first parameter of the sync procedures
-- tables:    none
-- holes:     type, shape, owner, comment
--
-- It is a type because the server reads arguments from left to right: rows of another shape are not even parsed.
create type "msrepl"."mssync_shape_sales__line" as enum ('c83184ba1cac');
alter type "msrepl"."mssync_shape_sales__line" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."mssync_shape_sales__line" from public;
comment on type "msrepl"."mssync_shape_sales__line" is 'Shape of the rows of sales.line that a call brings';

-- mssync_<what>_row_<table>: the type of one article's rows as a Subscriber sends them.
-- called by: parameters of the sync procedures
-- tables:    none
-- holes:     type, attributes, owner, comment
create type "msrepl"."mssync_ins_row_sales__line" as ("n1" bigint, "n2" smallint, "n3" public.citext, "n4" json, "n5" uuid);
alter type "msrepl"."mssync_ins_row_sales__line" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."mssync_ins_row_sales__line" from public;
comment on type "msrepl"."mssync_ins_row_sales__line" is 'Rows of sales.line on their way from a Subscriber';

-- mssync_<what>_row_<table>: the type of one article's rows as a Subscriber sends them.
-- called by: parameters of the sync procedures
-- tables:    none
-- holes:     type, attributes, owner, comment
create type "msrepl"."mssync_old_row_sales__line" as ("k1" bigint, "k2" smallint, "v" uuid);
alter type "msrepl"."mssync_old_row_sales__line" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."mssync_old_row_sales__line" from public;
comment on type "msrepl"."mssync_old_row_sales__line" is 'Rows of sales.line on their way from a Subscriber';

-- mssync_<what>_row_<table>: the type of one article's rows as a Subscriber sends them.
-- called by: parameters of the sync procedures
-- tables:    none
-- holes:     type, attributes, owner, comment
create type "msrepl"."mssync_del_row_sales__line" as ("o1" bigint, "o2" smallint, "o3" public.citext, "o4" json, "o5" uuid);
alter type "msrepl"."mssync_del_row_sales__line" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."mssync_del_row_sales__line" from public;
comment on type "msrepl"."mssync_del_row_sales__line" is 'Rows of sales.line on their way from a Subscriber';

-- mssync_change_ins_<table>: applies a Subscriber's INSERT if no unique key is taken.
-- called by: sp_mssync_ins_<table>
-- tables:    the published table
-- holes:     function, signature, rows, runs_as, before, opened, closed, table, columns, new_values,
--            new_names, clashes, article, only_key, denied, tables, after, owner, caller, comment
--
-- A plain INSERT, which waits for a row in doubt and, unlike ON CONFLICT, supports deferrable constraints. The
-- rows with which it clashed are looked up only after it failed. Parameters have no names: PL/pgSQL can be set to
-- refuse variables that shadow them.
create or replace function "msrepl"."mssync_change_ins_sales__line"(text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    "new_rows" "msrepl"."mssync_ins_row_sales__line"[];
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
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_2f6d64898938' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_2f6d64898938', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    new_rows := $1;
    sent := cardinality(new_rows);
    
    loop
        begin
            insert into "sales"."line" as t ("order", "place", "code", "data", "msrepl_tran_version") overriding system value
            select "r"."n1", "r"."n2", "r"."n3", "r"."n4", "r"."n5"
            from pg_catalog.unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5");
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
                    select 'line_pkey', jsonb_build_object('order', "r"."n1", 'place', "r"."n2"), r."n5"::text,
                    case when t."inside" then t."c5"::text end, case when t."inside" then (select to_jsonb(shown.*) from (select "t"."c1" as "order", "t"."c2" as "place", "t"."c3" as "code", "t"."c4" as "data", "t"."c5" as "msrepl_tran_version") as shown) end
                from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5") join (select "line"."order", "line"."place", "line"."code", "line"."data", "line"."msrepl_tran_version", true from "sales"."line" as "line") as t("c1", "c2", "c3", "c4", "c5", "inside") on "t"."c1" operator(pg_catalog.=) "r"."n1" and "t"."c2" operator(pg_catalog.=) "r"."n2"
                union all
                select 'line_code_key', jsonb_build_object('order', "r"."n1", 'place', "r"."n2"), r."n5"::text,
                    case when t."inside" then t."c5"::text end, case when t."inside" then (select to_jsonb(shown.*) from (select "t"."c1" as "order", "t"."c2" as "place", "t"."c3" as "code", "t"."c4" as "data", "t"."c5" as "msrepl_tran_version") as shown) end
                from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5") join (select "line"."order", "line"."place", "line"."code", "line"."data", "line"."msrepl_tran_version", true from "sales"."line" as "line") as t("c1", "c2", "c3", "c4", "c5", "inside") on "t"."c3" operator(public.=) "r"."n3"
                ) as c(name, key, sent, held, image)
                group by c.key
                order by count(distinct c.name) desc
                limit 1;
                perform msrepl.raise_conflict(
                    case when cardinality(bad.names) > 1 then 'multiple_unique' else 'insert_exists' end,
                    '23505', 20515, 'sales.line', coalesce(bad.key, case when sent = 1 then (select jsonb_build_object('order', "r"."n1", 'place', "r"."n2") from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5")) end), bad.sent, bad.held, bad.image,
                    format('a row of %s with the same key is at the Publisher already (%s)',
                           'sales.line', array_to_string(coalesce(bad.names, array[violated]), ', ')),
                    coalesce(bad.names, array[violated]));
            when foreign_key_violation then
                get stacked diagnostics violated = constraint_name, detail = pg_exception_detail;
                if waited then
                    perform msrepl.raise_conflict(
                        'fk_violation', '23503', 20515, 'sales.line', case when sent = 1 then (select jsonb_build_object('order', "r"."n1", 'place', "r"."n2") from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5")) end, null, null, null,
                        sqlerrm || coalesce(' (' || detail || ')', ''), array[violated]);
                end if;
                perform msrepl.await_branches(array['"sales"."line"'::regclass, '"sales"."order"'::regclass, '"sales"."part"'::regclass]::oid[]);
                waited := true;
        end;
    end loop;
    if done <> sent then
        perform msrepl.raise_conflict(
            'suppressed', '09000', 20515, 'sales.line', case when sent = 1 then (select jsonb_build_object('order', "r"."n1", 'place', "r"."n2") from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5")) end, null, null, null,
            format('a trigger of the Publisher kept %s of %s rows from being inserted into %s',
                   sent - done, sent, 'sales.line'));
    end if;
    
end
$msrepl$;
alter function "msrepl"."mssync_change_ins_sales__line"(text) owner to "msrepl_table_c268110370c2_2f6d64898938";
revoke all on function "msrepl"."mssync_change_ins_sales__line"(text) from public;
grant execute on function "msrepl"."mssync_change_ins_sales__line"(text) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."mssync_change_ins_sales__line"(text) is 'Applies the INSERT of a Subscriber to sales.line';

-- sp_mssync_<operation>_<table>: writes the branch marker, and has a Subscriber's rows applied.
-- called by: a trigger of a Subscriber, over its link
-- tables:    msrepl.branch_marker; the published table, by mssync_change_<operation>_<table>
-- holes:     procedure, parameters, change, arguments, path_is_kept, signature, owner, comment
--
-- The rows remain text until then: types may be a user's too, and their checks must not run with the rights
-- of the link.
create or replace procedure "msrepl"."sp_mssync_ins_sales__line"(shape "msrepl"."mssync_shape_sales__line", branch text, sites text[], "new_rows" text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if $2 is not null then
        insert into msrepl.branch_marker (gid, xid, participants, originator)
        values ($2, pg_current_xact_id(), $3, session_user);
    end if;
    perform "msrepl"."mssync_change_ins_sales__line"($4);
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered after calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function itself sets, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 'sales.line'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
end
$msrepl$;
alter procedure "msrepl"."sp_mssync_ins_sales__line"("msrepl"."mssync_shape_sales__line", text, text[], text) owner to "msrepl_owner_0123456789ab";
revoke all on procedure "msrepl"."sp_mssync_ins_sales__line"("msrepl"."mssync_shape_sales__line", text, text[], text) from public;
comment on procedure "msrepl"."sp_mssync_ins_sales__line"("msrepl"."mssync_shape_sales__line", text, text[], text) is 'Applies the INSERT of a Subscriber to sales.line';

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
create or replace function "msrepl"."mssync_change_upd_sales__line"(text, text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    "old_rows" "msrepl"."mssync_old_row_sales__line"[];
    "new_rows" "msrepl"."mssync_ins_row_sales__line"[];
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
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_2f6d64898938' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_2f6d64898938', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    old_rows := $1;
    new_rows := $2;
    sent := cardinality(old_rows);
    -- fragment: refuses a referential action that would change rows here which the Subscriber did not send.
-- called by: rendered into sp_mssync_upd_<table> and sp_mssync_del_<table>, once per key that acts
-- tables:    the published table and one that refers to it
-- holes:     source, table, parent, child, joined, changed, not_sent, article, child_name, constraint
--
-- The Subscriber sends child rows first, so rows that still refer to the parent are unknown to it. The parent
-- rows are locked first: transactions that were adding children have ended then, and no other can add any.
    perform 1
    from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "k2", "v", "n1", "n2", "n3", "n4", "n5") join "sales"."line" as t on "t"."order" operator(pg_catalog.=) "r"."k1" and "t"."place" operator(pg_catalog.=) "r"."k2"
    where (("t"."order" operator(pg_catalog.=) "r"."n1") is not true or ("t"."place" operator(pg_catalog.=) "r"."n2") is not true)
    for update of t;
    if exists (
        select from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "k2", "v", "n1", "n2", "n3", "n4", "n5") join "sales"."line" as t on "t"."order" operator(pg_catalog.=) "r"."k1" and "t"."place" operator(pg_catalog.=) "r"."k2" join "sales"."part" as c on "c"."order" operator(pg_catalog.=) "t"."order" and "c"."place" operator(pg_catalog.=) "t"."place"
        where (("t"."order" operator(pg_catalog.=) "r"."n1") is not true or ("t"."place" operator(pg_catalog.=) "r"."n2") is not true)
    ) then
        perform msrepl.raise_conflict(
            'fk_violation', '23503', 20515, 'sales.line', null, null, null, null,
            format('rows of %s that the Subscriber does not hold refer to rows of %s (%s)',
                   'sales.part', 'sales.line', 'part_line_fkey'),
            array['part_line_fkey']);
    end if;

    loop
        begin
            update "sales"."line" as t
            set "order" = "r"."n1", "place" = "r"."n2", "code" = "r"."n3", "data" = "r"."n4", "msrepl_tran_version" = "r"."n5"
            from rows from (pg_catalog.unnest(sync.old_rows), pg_catalog.unnest(sync.new_rows)) as r("k1", "k2", "v", "n1", "n2", "n3", "n4", "n5")
            where "t"."order" operator(pg_catalog.=) "r"."k1" and "t"."place" operator(pg_catalog.=) "r"."k2" and t.msrepl_tran_version operator(pg_catalog.=) r."v";
            get diagnostics again = row_count;
            done := kept + again;
            exit when done = sent;
            perform 1
            from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "k2", "v", "n1", "n2", "n3", "n4", "n5")
            join "sales"."line" as t on "t"."order" operator(pg_catalog.=) "r"."k1" and "t"."place" operator(pg_catalog.=) "r"."k2"
            for update of t;
            update "sales"."line" as t
            set "order" = "r"."n1", "place" = "r"."n2", "code" = "r"."n3", "data" = "r"."n4", "msrepl_tran_version" = "r"."n5"
            from rows from (pg_catalog.unnest(sync.old_rows), pg_catalog.unnest(sync.new_rows)) as r("k1", "k2", "v", "n1", "n2", "n3", "n4", "n5")
            where "t"."order" operator(pg_catalog.=) "r"."k1" and "t"."place" operator(pg_catalog.=) "r"."k2" and t.msrepl_tran_version operator(pg_catalog.=) r."v";
            get diagnostics again = row_count;
            done := done + again;
            exit when done = sent or waited;
            perform msrepl.await_branches(array['"sales"."line"'::regclass, '"sales"."order"'::regclass, '"sales"."part"'::regclass]::oid[]);
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
                    select 'line_pkey', jsonb_build_object('order', "r"."k1", 'place', "r"."k2"), r."v"::text,
                    case when t."inside" then t."c5"::text end, case when t."inside" then (select to_jsonb(shown.*) from (select "t"."c1" as "order", "t"."c2" as "place", "t"."c3" as "code", "t"."c4" as "data", "t"."c5" as "msrepl_tran_version") as shown) end
                from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "k2", "v", "n1", "n2", "n3", "n4", "n5") join (select "line"."order", "line"."place", "line"."code", "line"."data", "line"."msrepl_tran_version", true from "sales"."line" as "line") as t("c1", "c2", "c3", "c4", "c5", "inside") on "t"."c1" operator(pg_catalog.=) "r"."n1" and "t"."c2" operator(pg_catalog.=) "r"."n2"
                where not exists (select from unnest(sync.old_rows) as o("k1", "k2", "v") where "t"."c1" operator(pg_catalog.=) "o"."k1" and "t"."c2" operator(pg_catalog.=) "o"."k2")
                union all
                select 'line_code_key', jsonb_build_object('order', "r"."k1", 'place', "r"."k2"), r."v"::text,
                    case when t."inside" then t."c5"::text end, case when t."inside" then (select to_jsonb(shown.*) from (select "t"."c1" as "order", "t"."c2" as "place", "t"."c3" as "code", "t"."c4" as "data", "t"."c5" as "msrepl_tran_version") as shown) end
                from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "k2", "v", "n1", "n2", "n3", "n4", "n5") join (select "line"."order", "line"."place", "line"."code", "line"."data", "line"."msrepl_tran_version", true from "sales"."line" as "line") as t("c1", "c2", "c3", "c4", "c5", "inside") on "t"."c3" operator(public.=) "r"."n3"
                where not exists (select from unnest(sync.old_rows) as o("k1", "k2", "v") where "t"."c1" operator(pg_catalog.=) "o"."k1" and "t"."c2" operator(pg_catalog.=) "o"."k2")
                ) as c(name, key, sent, held, image)
                group by c.key
                order by count(distinct c.name) desc
                limit 1;
                perform msrepl.raise_conflict(
                    case when cardinality(bad.names) > 1 then 'multiple_unique' else 'update_exists' end,
                    '23505', 20515, 'sales.line', coalesce(bad.key, case when sent = 1 then (select jsonb_build_object('order', "r"."k1", 'place', "r"."k2") from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "k2", "v", "n1", "n2", "n3", "n4", "n5")) end), bad.sent, bad.held, bad.image,
                    format('the UPDATE gives a row of %s a key that is taken at the Publisher (%s)',
                           'sales.line', array_to_string(coalesce(bad.names, array[violated]), ', ')),
                    coalesce(bad.names, array[violated]));
            when foreign_key_violation then
                get stacked diagnostics violated = constraint_name, detail = pg_exception_detail;
                if waited then
                    perform msrepl.raise_conflict(
                        'fk_violation', '23503', 20515, 'sales.line', case when sent = 1 then (select jsonb_build_object('order', "r"."k1", 'place', "r"."k2") from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "k2", "v", "n1", "n2", "n3", "n4", "n5")) end, null, null, null,
                        sqlerrm || coalesce(' (' || detail || ')', ''), array[violated]);
                end if;
                perform msrepl.await_branches(array['"sales"."line"'::regclass, '"sales"."order"'::regclass, '"sales"."part"'::regclass]::oid[]);
                waited := true;
        end;
    end loop;
    if done <> sent then
        select jsonb_build_object('order', "r"."k1", 'place', "r"."k2") as key, r."v"::text as sent_version,
               t."c5"::text as held_version, case when t."inside" then (select to_jsonb(shown.*) from (select "t"."c1" as "order", "t"."c2" as "place", "t"."c3" as "code", "t"."c4" as "data", "t"."c5" as "msrepl_tran_version") as shown) end as image
        into bad
        from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "k2", "v", "n1", "n2", "n3", "n4", "n5")
        left join (select "line"."order", "line"."place", "line"."code", "line"."data", "line"."msrepl_tran_version", true from "sales"."line" as "line") as t("c1", "c2", "c3", "c4", "c5", "inside") on t."inside" and "t"."c1" operator(pg_catalog.=) "r"."k1" and "t"."c2" operator(pg_catalog.=) "r"."k2"
        where not exists (
            select from "sales"."line" as u
            where "u"."order" operator(pg_catalog.=) "r"."n1" and "u"."place" operator(pg_catalog.=) "r"."n2" and u.msrepl_tran_version in (
                r."n5", md5(r."n5"::text || extract(epoch from now()) || ' ' || pg_backend_pid())::uuid))
        limit 1;
        if bad.sent_version = bad.held_version then
            perform msrepl.raise_conflict(
                'suppressed', '09000', 20515, 'sales.line', bad.key, bad.sent_version, bad.held_version, bad.image,
                format('a trigger of the Publisher kept %s of %s rows of %s from being updated',
                       sent - done, sent, 'sales.line'));
        end if;
        perform msrepl.raise_conflict(
            case when bad.held_version is null then 'row_missing' else 'version_mismatch' end,
            '40001', 20515, 'sales.line', bad.key, bad.sent_version, bad.held_version, bad.image,
            format('rows of %s do not match between Publisher and Subscriber: %s of %s rows of the UPDATE were refused',
                   'sales.line', sent - done, sent));
    end if;
    
end
$msrepl$;
alter function "msrepl"."mssync_change_upd_sales__line"(text, text) owner to "msrepl_table_c268110370c2_2f6d64898938";
revoke all on function "msrepl"."mssync_change_upd_sales__line"(text, text) from public;
grant execute on function "msrepl"."mssync_change_upd_sales__line"(text, text) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."mssync_change_upd_sales__line"(text, text) is 'Applies the UPDATE of a Subscriber to sales.line';

-- sp_mssync_<operation>_<table>: writes the branch marker, and has a Subscriber's rows applied.
-- called by: a trigger of a Subscriber, over its link
-- tables:    msrepl.branch_marker; the published table, by mssync_change_<operation>_<table>
-- holes:     procedure, parameters, change, arguments, path_is_kept, signature, owner, comment
--
-- The rows remain text until then: types may be a user's too, and their checks must not run with the rights
-- of the link.
create or replace procedure "msrepl"."sp_mssync_upd_sales__line"(shape "msrepl"."mssync_shape_sales__line", branch text, sites text[], "old_rows" text, "new_rows" text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if $2 is not null then
        insert into msrepl.branch_marker (gid, xid, participants, originator)
        values ($2, pg_current_xact_id(), $3, session_user);
    end if;
    perform "msrepl"."mssync_change_upd_sales__line"($4, $5);
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered after calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function itself sets, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 'sales.line'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
end
$msrepl$;
alter procedure "msrepl"."sp_mssync_upd_sales__line"("msrepl"."mssync_shape_sales__line", text, text[], text, text) owner to "msrepl_owner_0123456789ab";
revoke all on procedure "msrepl"."sp_mssync_upd_sales__line"("msrepl"."mssync_shape_sales__line", text, text[], text, text) from public;
comment on procedure "msrepl"."sp_mssync_upd_sales__line"("msrepl"."mssync_shape_sales__line", text, text[], text, text) is 'Applies the UPDATE of a Subscriber to sales.line';

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
create or replace function "msrepl"."mssync_change_del_sales__line"(text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    "old_rows" "msrepl"."mssync_del_row_sales__line"[];
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
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_2f6d64898938' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_2f6d64898938', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    old_rows := $1;
    sent := cardinality(old_rows);
    -- fragment: refuses a referential action that would change rows here which the Subscriber did not send.
-- called by: rendered into sp_mssync_upd_<table> and sp_mssync_del_<table>, once per key that acts
-- tables:    the published table and one that refers to it
-- holes:     source, table, parent, child, joined, changed, not_sent, article, child_name, constraint
--
-- The Subscriber sends child rows first, so rows that still refer to the parent are unknown to it. The parent
-- rows are locked first: transactions that were adding children have ended then, and no other can add any.
    perform 1
    from unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5") join "sales"."line" as t on "t"."order" operator(pg_catalog.=) "r"."o1" and "t"."place" operator(pg_catalog.=) "r"."o2"
    where true
    for update of t;
    if exists (
        select from unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5") join "sales"."line" as t on "t"."order" operator(pg_catalog.=) "r"."o1" and "t"."place" operator(pg_catalog.=) "r"."o2" join "sales"."part" as c on "c"."order" operator(pg_catalog.=) "t"."order" and "c"."place" operator(pg_catalog.=) "t"."place"
        where true
    ) then
        perform msrepl.raise_conflict(
            'fk_violation', '23503', 20515, 'sales.line', null, null, null, null,
            format('rows of %s that the Subscriber does not hold refer to rows of %s (%s)',
                   'sales.part', 'sales.line', 'part_line_fkey'),
            array['part_line_fkey']);
    end if;

    loop
        begin
            delete from "sales"."line" as t
            using pg_catalog.unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5")
            where "t"."order" operator(pg_catalog.=) "r"."o1" and "t"."place" operator(pg_catalog.=) "r"."o2" and (row("t"."code")::text operator(pg_catalog.=) row("r"."o3")::text or row("t"."code")::text is null and row("r"."o3")::text is null)
            and (row("t"."data")::text operator(pg_catalog.=) row("r"."o4")::text or row("t"."data")::text is null and row("r"."o4")::text is null)
            and ("t"."msrepl_tran_version" operator(pg_catalog.=) "r"."o5" or "t"."msrepl_tran_version" is null and "r"."o5" is null);
            get diagnostics again = row_count;
            done := kept + again;
            if done <> sent then
                perform 1
                from unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5")
                join "sales"."line" as t on "t"."order" operator(pg_catalog.=) "r"."o1" and "t"."place" operator(pg_catalog.=) "r"."o2"
                for update of t;
                delete from "sales"."line" as t
                using pg_catalog.unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5")
                where "t"."order" operator(pg_catalog.=) "r"."o1" and "t"."place" operator(pg_catalog.=) "r"."o2" and (row("t"."code")::text operator(pg_catalog.=) row("r"."o3")::text or row("t"."code")::text is null and row("r"."o3")::text is null)
            and (row("t"."data")::text operator(pg_catalog.=) row("r"."o4")::text or row("t"."data")::text is null and row("r"."o4")::text is null)
            and ("t"."msrepl_tran_version" operator(pg_catalog.=) "r"."o5" or "t"."msrepl_tran_version" is null and "r"."o5" is null);
                get diagnostics again = row_count;
                done := done + again;
            end if;
            exit when done = sent or waited;
            perform msrepl.await_branches(array['"sales"."line"'::regclass, '"sales"."order"'::regclass, '"sales"."part"'::regclass]::oid[]);
            waited := true;
            kept := done;
        exception
            when foreign_key_violation then
                get stacked diagnostics violated = constraint_name, detail = pg_exception_detail;
                if waited then
                    perform msrepl.raise_conflict(
                        'fk_violation', '23503', 20515, 'sales.line', case when sent = 1 then (select jsonb_build_object('order', "r"."o1", 'place', "r"."o2") from unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5")) end, null, null, null,
                        sqlerrm || coalesce(' (' || detail || ')', ''), array[violated]);
                end if;
                perform msrepl.await_branches(array['"sales"."line"'::regclass, '"sales"."order"'::regclass, '"sales"."part"'::regclass]::oid[]);
                waited := true;
        end;
    end loop;
    if done <> sent then
        -- a row that still exists is stale; if none does and several rows were sent, the missing row
        -- cannot be distinguished from those that this call deleted
        select jsonb_build_object('order', "r"."o1", 'place', "r"."o2") as key, r."o5"::text as sent_version,
               t."c5"::text as held_version, case when t."inside" then (select to_jsonb(shown.*) from (select "t"."c1" as "order", "t"."c2" as "place", "t"."c3" as "code", "t"."c4" as "data", "t"."c5" as "msrepl_tran_version") as shown) end as image
        into bad
        from unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5")
        left join (select "line"."order", "line"."place", "line"."code", "line"."data", "line"."msrepl_tran_version", true from "sales"."line" as "line") as t("c1", "c2", "c3", "c4", "c5", "inside") on t."inside" and "t"."c1" operator(pg_catalog.=) "r"."o1" and "t"."c2" operator(pg_catalog.=) "r"."o2"
        where t."c5" is not null or sync.sent = 1
        limit 1;
        if exists (
            select from unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5") join "sales"."line" as t on "t"."order" operator(pg_catalog.=) "r"."o1" and "t"."place" operator(pg_catalog.=) "r"."o2" and (row("t"."code")::text operator(pg_catalog.=) row("r"."o3")::text or row("t"."code")::text is null and row("r"."o3")::text is null)
            and (row("t"."data")::text operator(pg_catalog.=) row("r"."o4")::text or row("t"."data")::text is null and row("r"."o4")::text is null)
            and ("t"."msrepl_tran_version" operator(pg_catalog.=) "r"."o5" or "t"."msrepl_tran_version" is null and "r"."o5" is null)
        ) then
            perform msrepl.raise_conflict(
                'suppressed', '09000', 20515, 'sales.line', bad.key, bad.sent_version, bad.held_version, bad.image,
                format('a trigger of the Publisher kept %s of %s rows of %s from being deleted',
                       sent - done, sent, 'sales.line'));
        end if;
        perform msrepl.raise_conflict(
            case when bad.held_version is null then 'row_missing' else 'delete_stale' end,
            '40001', 20515, 'sales.line', bad.key, bad.sent_version, bad.held_version, bad.image,
            format('rows of %s do not match between Publisher and Subscriber: %s of %s rows of the DELETE were refused',
                   'sales.line', sent - done, sent));
    end if;
end
$msrepl$;
alter function "msrepl"."mssync_change_del_sales__line"(text) owner to "msrepl_table_c268110370c2_2f6d64898938";
revoke all on function "msrepl"."mssync_change_del_sales__line"(text) from public;
grant execute on function "msrepl"."mssync_change_del_sales__line"(text) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."mssync_change_del_sales__line"(text) is 'Applies the DELETE of a Subscriber to sales.line';

-- sp_mssync_<operation>_<table>: writes the branch marker, and has a Subscriber's rows applied.
-- called by: a trigger of a Subscriber, over its link
-- tables:    msrepl.branch_marker; the published table, by mssync_change_<operation>_<table>
-- holes:     procedure, parameters, change, arguments, path_is_kept, signature, owner, comment
--
-- The rows remain text until then: types may be a user's too, and their checks must not run with the rights
-- of the link.
create or replace procedure "msrepl"."sp_mssync_del_sales__line"(shape "msrepl"."mssync_shape_sales__line", branch text, sites text[], "old_rows" text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if $2 is not null then
        insert into msrepl.branch_marker (gid, xid, participants, originator)
        values ($2, pg_current_xact_id(), $3, session_user);
    end if;
    perform "msrepl"."mssync_change_del_sales__line"($4);
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered after calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function itself sets, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 'sales.line'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
end
$msrepl$;
alter procedure "msrepl"."sp_mssync_del_sales__line"("msrepl"."mssync_shape_sales__line", text, text[], text) owner to "msrepl_owner_0123456789ab";
revoke all on procedure "msrepl"."sp_mssync_del_sales__line"("msrepl"."mssync_shape_sales__line", text, text[], text) from public;
comment on procedure "msrepl"."sp_mssync_del_sales__line"("msrepl"."mssync_shape_sales__line", text, text[], text) is 'Applies the DELETE of a Subscriber to sales.line';

-- ~sp_mssync_upd_trig_<table>: the trigger that gives the rows of one published table their versions.
-- called by: every INSERT and UPDATE of the table
-- tables:    the published table
-- holes:     trigger, table, role, more
--
-- ENABLE ALWAYS: a change made under session_replication_role = replica would otherwise keep the row
-- version, and a Subscriber's stale copy would pass the check.
create or replace trigger "~sp_mssync_upd_trig_sales__line"
    before insert or update on "sales"."line"
    for each row execute function msrepl.sp_mssync_upd_trig('msrepl_table_c268110370c2_2f6d64898938');
alter table "sales"."line" enable always trigger "~sp_mssync_upd_trig_sales__line";

-- trg_mssync_truncate_<table>: refuses TRUNCATE of one replicated table.
-- called by: every TRUNCATE of the table
-- tables:    none
-- holes:     trigger, table
create or replace trigger "trg_mssync_truncate_sales__line"
    before truncate on "sales"."line"
    for each statement execute function msrepl.refuse_truncate();

drop routine if exists "msrepl"."sp_mssync_ins_sales__line";

drop routine if exists "msrepl"."sp_mssync_upd_sales__line";

drop routine if exists "msrepl"."sp_mssync_del_sales__line";

drop routine if exists "msrepl"."sp_mssync_gen_sales__line";

drop routine if exists "msrepl"."mssync_change_ins_sales__line";

drop routine if exists "msrepl"."mssync_change_upd_sales__line";

drop routine if exists "msrepl"."mssync_change_del_sales__line";

drop routine if exists "msrepl"."mssync_make_sales__line";

drop type if exists "msrepl"."mssync_ins_row_sales__line";

drop type if exists "msrepl"."mssync_old_row_sales__line";

drop type if exists "msrepl"."mssync_del_row_sales__line";

drop type if exists "msrepl"."mssync_shape_sales__line";
