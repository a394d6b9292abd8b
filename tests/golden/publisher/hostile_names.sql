-- mssync_shape_<table>: the only shape of rows that the sync procedures of an article accept.
-- called by: first parameter of the sync procedures
-- tables:    none
-- holes:     type, shape, owner, comment
--
-- It is a type because the server reads arguments from left to right: rows of another shape are not even parsed.
create type "msrepl"."mssync_shape_the ""odd"" one__t%s{}\'" as enum ('032707f07a6f');
alter type "msrepl"."mssync_shape_the ""odd"" one__t%s{}\'" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."mssync_shape_the ""odd"" one__t%s{}\'" from public;
comment on type "msrepl"."mssync_shape_the ""odd"" one__t%s{}\'" is  E'Shape of the rows of the "odd" one.t%s{}\\'' that a call brings';

-- mssync_<what>_row_<table>: the type of one article's rows as a Subscriber sends them.
-- called by: parameters of the sync procedures
-- tables:    none
-- holes:     type, attributes, owner, comment
create type "msrepl"."mssync_ins_row_the ""odd"" one__t%s{}\'" as ("n1" integer, "n2" text, "n3" text, "n4" text, "n5" text, "n6" uuid);
alter type "msrepl"."mssync_ins_row_the ""odd"" one__t%s{}\'" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."mssync_ins_row_the ""odd"" one__t%s{}\'" from public;
comment on type "msrepl"."mssync_ins_row_the ""odd"" one__t%s{}\'" is  E'Rows of the "odd" one.t%s{}\\'' on their way from a Subscriber';

-- mssync_<what>_row_<table>: the type of one article's rows as a Subscriber sends them.
-- called by: parameters of the sync procedures
-- tables:    none
-- holes:     type, attributes, owner, comment
create type "msrepl"."mssync_old_row_the ""odd"" one__t%s{}\'" as ("k1" integer, "v" uuid);
alter type "msrepl"."mssync_old_row_the ""odd"" one__t%s{}\'" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."mssync_old_row_the ""odd"" one__t%s{}\'" from public;
comment on type "msrepl"."mssync_old_row_the ""odd"" one__t%s{}\'" is  E'Rows of the "odd" one.t%s{}\\'' on their way from a Subscriber';

-- mssync_<what>_row_<table>: the type of one article's rows as a Subscriber sends them.
-- called by: parameters of the sync procedures
-- tables:    none
-- holes:     type, attributes, owner, comment
create type "msrepl"."mssync_del_row_the ""odd"" one__t%s{}\'" as ("o1" integer, "o2" text, "o3" text, "o4" text, "o5" text, "o6" uuid);
alter type "msrepl"."mssync_del_row_the ""odd"" one__t%s{}\'" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."mssync_del_row_the ""odd"" one__t%s{}\'" from public;
comment on type "msrepl"."mssync_del_row_the ""odd"" one__t%s{}\'" is  E'Rows of the "odd" one.t%s{}\\'' on their way from a Subscriber';

-- mssync_change_ins_<table>: applies a Subscriber's INSERT if no unique key is taken.
-- called by: sp_mssync_ins_<table>
-- tables:    the published table
-- holes:     function, signature, rows, runs_as, before, opened, closed, table, columns, new_values,
--            new_names, clashes, article, only_key, denied, tables, after, owner, caller, comment
--
-- A plain INSERT, which waits for a row in doubt and, unlike ON CONFLICT, supports deferrable constraints. The
-- rows with which it clashed are looked up only after it failed. Parameters have no names: PL/pgSQL can be set to
-- refuse variables that shadow them.
create or replace function "msrepl"."mssync_change_ins_the ""odd"" one__t%s{}\'"(text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    "new_rows" "msrepl"."mssync_ins_row_the ""odd"" one__t%s{}\'"[];
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
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_b4c33d6dfab3' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_b4c33d6dfab3', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    new_rows := $1;
    sent := cardinality(new_rows);
    
    loop
        begin
            insert into "the ""odd"" one"."t%s{}\'" as t ("t", "sent", "100% {x} %(y)s", "it's ""so""", "naïve\日本", "msrepl_tran_version") overriding system value
            select "r"."n1", "r"."n2", "r"."n3", "r"."n4", "r"."n5", "r"."n6"
            from pg_catalog.unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5", "n6");
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
                    select 'the "key"', jsonb_build_object('t', "r"."n1"), r."n6"::text,
                    case when t."inside" then t."c6"::text end, case when t."inside" then (select to_jsonb(shown.*) from (select "t"."c1" as "t", "t"."c2" as "sent", "t"."c3" as "100% {x} %(y)s", "t"."c4" as "it's ""so""", "t"."c5" as "naïve\日本", "t"."c6" as "msrepl_tran_version") as shown) end
                from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5", "n6") join (select "t%s{}\'"."t", "t%s{}\'"."sent", "t%s{}\'"."100% {x} %(y)s", "t%s{}\'"."it's ""so""", "t%s{}\'"."naïve\日本", "t%s{}\'"."msrepl_tran_version", true from "the ""odd"" one"."t%s{}\'" as "t%s{}\'") as t("c1", "c2", "c3", "c4", "c5", "c6", "inside") on "t"."c1" operator(pg_catalog.=) "r"."n1"
                ) as c(name, key, sent, held, image)
                group by c.key
                order by count(distinct c.name) desc
                limit 1;
                perform msrepl.raise_conflict(
                    case when cardinality(bad.names) > 1 then 'multiple_unique' else 'insert_exists' end,
                    '23505', 20515,  E'the "odd" one.t%s{}\\''', coalesce(bad.key, case when sent = 1 then (select jsonb_build_object('t', "r"."n1") from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5", "n6")) end), bad.sent, bad.held, bad.image,
                    format('a row of %s with the same key is at the Publisher already (%s)',
                            E'the "odd" one.t%s{}\\''', array_to_string(coalesce(bad.names, array[violated]), ', ')),
                    coalesce(bad.names, array[violated]));
            when foreign_key_violation then
                get stacked diagnostics violated = constraint_name, detail = pg_exception_detail;
                if waited then
                    perform msrepl.raise_conflict(
                        'fk_violation', '23503', 20515,  E'the "odd" one.t%s{}\\''', case when sent = 1 then (select jsonb_build_object('t', "r"."n1") from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5", "n6")) end, null, null, null,
                        sqlerrm || coalesce(' (' || detail || ')', ''), array[violated]);
                end if;
                perform msrepl.await_branches(array[ E'"the ""odd"" one"."t%s{}\\''"'::regclass]::oid[]);
                waited := true;
        end;
    end loop;
    if done <> sent then
        perform msrepl.raise_conflict(
            'suppressed', '09000', 20515,  E'the "odd" one.t%s{}\\''', case when sent = 1 then (select jsonb_build_object('t', "r"."n1") from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5", "n6")) end, null, null, null,
            format('a trigger of the Publisher kept %s of %s rows from being inserted into %s',
                   sent - done, sent,  E'the "odd" one.t%s{}\\'''));
    end if;
    
end
$msrepl$;
alter function "msrepl"."mssync_change_ins_the ""odd"" one__t%s{}\'"(text) owner to "msrepl_table_c268110370c2_b4c33d6dfab3";
revoke all on function "msrepl"."mssync_change_ins_the ""odd"" one__t%s{}\'"(text) from public;
grant execute on function "msrepl"."mssync_change_ins_the ""odd"" one__t%s{}\'"(text) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."mssync_change_ins_the ""odd"" one__t%s{}\'"(text) is  E'Applies the INSERT of a Subscriber to the "odd" one.t%s{}\\''';

-- sp_mssync_<operation>_<table>: writes the branch marker, and has a Subscriber's rows applied.
-- called by: a trigger of a Subscriber, over its link
-- tables:    msrepl.branch_marker; the published table, by mssync_change_<operation>_<table>
-- holes:     procedure, parameters, change, arguments, path_is_kept, signature, owner, comment
--
-- The rows remain text until then: types may be a user's too, and their checks must not run with the rights
-- of the link.
create or replace procedure "msrepl"."sp_mssync_ins_the ""odd"" one__t%s{}\'"(shape "msrepl"."mssync_shape_the ""odd"" one__t%s{}\'", branch text, sites text[], "new_rows" text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if $2 is not null then
        insert into msrepl.branch_marker (gid, xid, participants, originator)
        values ($2, pg_current_xact_id(), $3, session_user);
    end if;
    perform "msrepl"."mssync_change_ins_the ""odd"" one__t%s{}\'"($4);
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered after calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function itself sets, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path',  E'the "odd" one.t%s{}\\'''
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
end
$msrepl$;
alter procedure "msrepl"."sp_mssync_ins_the ""odd"" one__t%s{}\'"("msrepl"."mssync_shape_the ""odd"" one__t%s{}\'", text, text[], text) owner to "msrepl_owner_0123456789ab";
revoke all on procedure "msrepl"."sp_mssync_ins_the ""odd"" one__t%s{}\'"("msrepl"."mssync_shape_the ""odd"" one__t%s{}\'", text, text[], text) from public;
comment on procedure "msrepl"."sp_mssync_ins_the ""odd"" one__t%s{}\'"("msrepl"."mssync_shape_the ""odd"" one__t%s{}\'", text, text[], text) is  E'Applies the INSERT of a Subscriber to the "odd" one.t%s{}\\''';

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
create or replace function "msrepl"."mssync_change_upd_the ""odd"" one__t%s{}\'"(text, text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    "old_rows" "msrepl"."mssync_old_row_the ""odd"" one__t%s{}\'"[];
    "new_rows" "msrepl"."mssync_ins_row_the ""odd"" one__t%s{}\'"[];
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
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_b4c33d6dfab3' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_b4c33d6dfab3', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    old_rows := $1;
    new_rows := $2;
    sent := cardinality(old_rows);
    
    loop
        begin
            update "the ""odd"" one"."t%s{}\'" as t
            set "t" = "r"."n1", "sent" = "r"."n2", "100% {x} %(y)s" = "r"."n3", "it's ""so""" = "r"."n4", "naïve\日本" = "r"."n5", "msrepl_tran_version" = "r"."n6"
            from rows from (pg_catalog.unnest(sync.old_rows), pg_catalog.unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4", "n5", "n6")
            where "t"."t" operator(pg_catalog.=) "r"."k1" and t.msrepl_tran_version operator(pg_catalog.=) r."v";
            get diagnostics again = row_count;
            done := kept + again;
            exit when done = sent;
            perform 1
            from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4", "n5", "n6")
            join "the ""odd"" one"."t%s{}\'" as t on "t"."t" operator(pg_catalog.=) "r"."k1"
            for update of t;
            update "the ""odd"" one"."t%s{}\'" as t
            set "t" = "r"."n1", "sent" = "r"."n2", "100% {x} %(y)s" = "r"."n3", "it's ""so""" = "r"."n4", "naïve\日本" = "r"."n5", "msrepl_tran_version" = "r"."n6"
            from rows from (pg_catalog.unnest(sync.old_rows), pg_catalog.unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4", "n5", "n6")
            where "t"."t" operator(pg_catalog.=) "r"."k1" and t.msrepl_tran_version operator(pg_catalog.=) r."v";
            get diagnostics again = row_count;
            done := done + again;
            exit when done = sent or waited;
            perform msrepl.await_branches(array[ E'"the ""odd"" one"."t%s{}\\''"'::regclass]::oid[]);
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
                    select 'the "key"', jsonb_build_object('t', "r"."k1"), r."v"::text,
                    case when t."inside" then t."c6"::text end, case when t."inside" then (select to_jsonb(shown.*) from (select "t"."c1" as "t", "t"."c2" as "sent", "t"."c3" as "100% {x} %(y)s", "t"."c4" as "it's ""so""", "t"."c5" as "naïve\日本", "t"."c6" as "msrepl_tran_version") as shown) end
                from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4", "n5", "n6") join (select "t%s{}\'"."t", "t%s{}\'"."sent", "t%s{}\'"."100% {x} %(y)s", "t%s{}\'"."it's ""so""", "t%s{}\'"."naïve\日本", "t%s{}\'"."msrepl_tran_version", true from "the ""odd"" one"."t%s{}\'" as "t%s{}\'") as t("c1", "c2", "c3", "c4", "c5", "c6", "inside") on "t"."c1" operator(pg_catalog.=) "r"."n1"
                where not exists (select from unnest(sync.old_rows) as o("k1", "v") where "t"."c1" operator(pg_catalog.=) "o"."k1")
                ) as c(name, key, sent, held, image)
                group by c.key
                order by count(distinct c.name) desc
                limit 1;
                perform msrepl.raise_conflict(
                    case when cardinality(bad.names) > 1 then 'multiple_unique' else 'update_exists' end,
                    '23505', 20515,  E'the "odd" one.t%s{}\\''', coalesce(bad.key, case when sent = 1 then (select jsonb_build_object('t', "r"."k1") from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4", "n5", "n6")) end), bad.sent, bad.held, bad.image,
                    format('the UPDATE gives a row of %s a key that is taken at the Publisher (%s)',
                            E'the "odd" one.t%s{}\\''', array_to_string(coalesce(bad.names, array[violated]), ', ')),
                    coalesce(bad.names, array[violated]));
            when foreign_key_violation then
                get stacked diagnostics violated = constraint_name, detail = pg_exception_detail;
                if waited then
                    perform msrepl.raise_conflict(
                        'fk_violation', '23503', 20515,  E'the "odd" one.t%s{}\\''', case when sent = 1 then (select jsonb_build_object('t', "r"."k1") from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4", "n5", "n6")) end, null, null, null,
                        sqlerrm || coalesce(' (' || detail || ')', ''), array[violated]);
                end if;
                perform msrepl.await_branches(array[ E'"the ""odd"" one"."t%s{}\\''"'::regclass]::oid[]);
                waited := true;
        end;
    end loop;
    if done <> sent then
        select jsonb_build_object('t', "r"."k1") as key, r."v"::text as sent_version,
               t."c6"::text as held_version, case when t."inside" then (select to_jsonb(shown.*) from (select "t"."c1" as "t", "t"."c2" as "sent", "t"."c3" as "100% {x} %(y)s", "t"."c4" as "it's ""so""", "t"."c5" as "naïve\日本", "t"."c6" as "msrepl_tran_version") as shown) end as image
        into bad
        from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4", "n5", "n6")
        left join (select "t%s{}\'"."t", "t%s{}\'"."sent", "t%s{}\'"."100% {x} %(y)s", "t%s{}\'"."it's ""so""", "t%s{}\'"."naïve\日本", "t%s{}\'"."msrepl_tran_version", true from "the ""odd"" one"."t%s{}\'" as "t%s{}\'") as t("c1", "c2", "c3", "c4", "c5", "c6", "inside") on t."inside" and "t"."c1" operator(pg_catalog.=) "r"."k1"
        where not exists (
            select from "the ""odd"" one"."t%s{}\'" as u
            where "u"."t" operator(pg_catalog.=) "r"."n1" and u.msrepl_tran_version in (
                r."n6", md5(r."n6"::text || extract(epoch from now()) || ' ' || pg_backend_pid())::uuid))
        limit 1;
        if bad.sent_version = bad.held_version then
            perform msrepl.raise_conflict(
                'suppressed', '09000', 20515,  E'the "odd" one.t%s{}\\''', bad.key, bad.sent_version, bad.held_version, bad.image,
                format('a trigger of the Publisher kept %s of %s rows of %s from being updated',
                       sent - done, sent,  E'the "odd" one.t%s{}\\'''));
        end if;
        perform msrepl.raise_conflict(
            case when bad.held_version is null then 'row_missing' else 'version_mismatch' end,
            '40001', 20515,  E'the "odd" one.t%s{}\\''', bad.key, bad.sent_version, bad.held_version, bad.image,
            format('rows of %s do not match between Publisher and Subscriber: %s of %s rows of the UPDATE were refused',
                    E'the "odd" one.t%s{}\\''', sent - done, sent));
    end if;
    
end
$msrepl$;
alter function "msrepl"."mssync_change_upd_the ""odd"" one__t%s{}\'"(text, text) owner to "msrepl_table_c268110370c2_b4c33d6dfab3";
revoke all on function "msrepl"."mssync_change_upd_the ""odd"" one__t%s{}\'"(text, text) from public;
grant execute on function "msrepl"."mssync_change_upd_the ""odd"" one__t%s{}\'"(text, text) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."mssync_change_upd_the ""odd"" one__t%s{}\'"(text, text) is  E'Applies the UPDATE of a Subscriber to the "odd" one.t%s{}\\''';

-- sp_mssync_<operation>_<table>: writes the branch marker, and has a Subscriber's rows applied.
-- called by: a trigger of a Subscriber, over its link
-- tables:    msrepl.branch_marker; the published table, by mssync_change_<operation>_<table>
-- holes:     procedure, parameters, change, arguments, path_is_kept, signature, owner, comment
--
-- The rows remain text until then: types may be a user's too, and their checks must not run with the rights
-- of the link.
create or replace procedure "msrepl"."sp_mssync_upd_the ""odd"" one__t%s{}\'"(shape "msrepl"."mssync_shape_the ""odd"" one__t%s{}\'", branch text, sites text[], "old_rows" text, "new_rows" text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if $2 is not null then
        insert into msrepl.branch_marker (gid, xid, participants, originator)
        values ($2, pg_current_xact_id(), $3, session_user);
    end if;
    perform "msrepl"."mssync_change_upd_the ""odd"" one__t%s{}\'"($4, $5);
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered after calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function itself sets, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path',  E'the "odd" one.t%s{}\\'''
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
end
$msrepl$;
alter procedure "msrepl"."sp_mssync_upd_the ""odd"" one__t%s{}\'"("msrepl"."mssync_shape_the ""odd"" one__t%s{}\'", text, text[], text, text) owner to "msrepl_owner_0123456789ab";
revoke all on procedure "msrepl"."sp_mssync_upd_the ""odd"" one__t%s{}\'"("msrepl"."mssync_shape_the ""odd"" one__t%s{}\'", text, text[], text, text) from public;
comment on procedure "msrepl"."sp_mssync_upd_the ""odd"" one__t%s{}\'"("msrepl"."mssync_shape_the ""odd"" one__t%s{}\'", text, text[], text, text) is  E'Applies the UPDATE of a Subscriber to the "odd" one.t%s{}\\''';

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
create or replace function "msrepl"."mssync_change_del_the ""odd"" one__t%s{}\'"(text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    "old_rows" "msrepl"."mssync_del_row_the ""odd"" one__t%s{}\'"[];
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
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_b4c33d6dfab3' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_b4c33d6dfab3', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    old_rows := $1;
    sent := cardinality(old_rows);
    
    loop
        begin
            delete from "the ""odd"" one"."t%s{}\'" as t
            using pg_catalog.unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5", "o6")
            where "t"."t" operator(pg_catalog.=) "r"."o1" and ("t"."sent" operator(pg_catalog.=) "r"."o2" or "t"."sent" is null and "r"."o2" is null)
            and ("t"."100% {x} %(y)s" operator(pg_catalog.=) "r"."o3" or "t"."100% {x} %(y)s" is null and "r"."o3" is null)
            and ("t"."it's ""so""" operator(pg_catalog.=) "r"."o4" or "t"."it's ""so""" is null and "r"."o4" is null)
            and ("t"."naïve\日本" operator(pg_catalog.=) "r"."o5" or "t"."naïve\日本" is null and "r"."o5" is null)
            and ("t"."msrepl_tran_version" operator(pg_catalog.=) "r"."o6" or "t"."msrepl_tran_version" is null and "r"."o6" is null);
            get diagnostics again = row_count;
            done := kept + again;
            if done <> sent then
                perform 1
                from unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5", "o6")
                join "the ""odd"" one"."t%s{}\'" as t on "t"."t" operator(pg_catalog.=) "r"."o1"
                for update of t;
                delete from "the ""odd"" one"."t%s{}\'" as t
                using pg_catalog.unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5", "o6")
                where "t"."t" operator(pg_catalog.=) "r"."o1" and ("t"."sent" operator(pg_catalog.=) "r"."o2" or "t"."sent" is null and "r"."o2" is null)
            and ("t"."100% {x} %(y)s" operator(pg_catalog.=) "r"."o3" or "t"."100% {x} %(y)s" is null and "r"."o3" is null)
            and ("t"."it's ""so""" operator(pg_catalog.=) "r"."o4" or "t"."it's ""so""" is null and "r"."o4" is null)
            and ("t"."naïve\日本" operator(pg_catalog.=) "r"."o5" or "t"."naïve\日本" is null and "r"."o5" is null)
            and ("t"."msrepl_tran_version" operator(pg_catalog.=) "r"."o6" or "t"."msrepl_tran_version" is null and "r"."o6" is null);
                get diagnostics again = row_count;
                done := done + again;
            end if;
            exit when done = sent or waited;
            perform msrepl.await_branches(array[ E'"the ""odd"" one"."t%s{}\\''"'::regclass]::oid[]);
            waited := true;
            kept := done;
        exception
            when foreign_key_violation then
                get stacked diagnostics violated = constraint_name, detail = pg_exception_detail;
                if waited then
                    perform msrepl.raise_conflict(
                        'fk_violation', '23503', 20515,  E'the "odd" one.t%s{}\\''', case when sent = 1 then (select jsonb_build_object('t', "r"."o1") from unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5", "o6")) end, null, null, null,
                        sqlerrm || coalesce(' (' || detail || ')', ''), array[violated]);
                end if;
                perform msrepl.await_branches(array[ E'"the ""odd"" one"."t%s{}\\''"'::regclass]::oid[]);
                waited := true;
        end;
    end loop;
    if done <> sent then
        -- a row that still exists is stale; if none does and several rows were sent, the missing row
        -- cannot be distinguished from those that this call deleted
        select jsonb_build_object('t', "r"."o1") as key, r."o6"::text as sent_version,
               t."c6"::text as held_version, case when t."inside" then (select to_jsonb(shown.*) from (select "t"."c1" as "t", "t"."c2" as "sent", "t"."c3" as "100% {x} %(y)s", "t"."c4" as "it's ""so""", "t"."c5" as "naïve\日本", "t"."c6" as "msrepl_tran_version") as shown) end as image
        into bad
        from unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5", "o6")
        left join (select "t%s{}\'"."t", "t%s{}\'"."sent", "t%s{}\'"."100% {x} %(y)s", "t%s{}\'"."it's ""so""", "t%s{}\'"."naïve\日本", "t%s{}\'"."msrepl_tran_version", true from "the ""odd"" one"."t%s{}\'" as "t%s{}\'") as t("c1", "c2", "c3", "c4", "c5", "c6", "inside") on t."inside" and "t"."c1" operator(pg_catalog.=) "r"."o1"
        where t."c6" is not null or sync.sent = 1
        limit 1;
        if exists (
            select from unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5", "o6") join "the ""odd"" one"."t%s{}\'" as t on "t"."t" operator(pg_catalog.=) "r"."o1" and ("t"."sent" operator(pg_catalog.=) "r"."o2" or "t"."sent" is null and "r"."o2" is null)
            and ("t"."100% {x} %(y)s" operator(pg_catalog.=) "r"."o3" or "t"."100% {x} %(y)s" is null and "r"."o3" is null)
            and ("t"."it's ""so""" operator(pg_catalog.=) "r"."o4" or "t"."it's ""so""" is null and "r"."o4" is null)
            and ("t"."naïve\日本" operator(pg_catalog.=) "r"."o5" or "t"."naïve\日本" is null and "r"."o5" is null)
            and ("t"."msrepl_tran_version" operator(pg_catalog.=) "r"."o6" or "t"."msrepl_tran_version" is null and "r"."o6" is null)
        ) then
            perform msrepl.raise_conflict(
                'suppressed', '09000', 20515,  E'the "odd" one.t%s{}\\''', bad.key, bad.sent_version, bad.held_version, bad.image,
                format('a trigger of the Publisher kept %s of %s rows of %s from being deleted',
                       sent - done, sent,  E'the "odd" one.t%s{}\\'''));
        end if;
        perform msrepl.raise_conflict(
            case when bad.held_version is null then 'row_missing' else 'delete_stale' end,
            '40001', 20515,  E'the "odd" one.t%s{}\\''', bad.key, bad.sent_version, bad.held_version, bad.image,
            format('rows of %s do not match between Publisher and Subscriber: %s of %s rows of the DELETE were refused',
                    E'the "odd" one.t%s{}\\''', sent - done, sent));
    end if;
end
$msrepl$;
alter function "msrepl"."mssync_change_del_the ""odd"" one__t%s{}\'"(text) owner to "msrepl_table_c268110370c2_b4c33d6dfab3";
revoke all on function "msrepl"."mssync_change_del_the ""odd"" one__t%s{}\'"(text) from public;
grant execute on function "msrepl"."mssync_change_del_the ""odd"" one__t%s{}\'"(text) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."mssync_change_del_the ""odd"" one__t%s{}\'"(text) is  E'Applies the DELETE of a Subscriber to the "odd" one.t%s{}\\''';

-- sp_mssync_<operation>_<table>: writes the branch marker, and has a Subscriber's rows applied.
-- called by: a trigger of a Subscriber, over its link
-- tables:    msrepl.branch_marker; the published table, by mssync_change_<operation>_<table>
-- holes:     procedure, parameters, change, arguments, path_is_kept, signature, owner, comment
--
-- The rows remain text until then: types may be a user's too, and their checks must not run with the rights
-- of the link.
create or replace procedure "msrepl"."sp_mssync_del_the ""odd"" one__t%s{}\'"(shape "msrepl"."mssync_shape_the ""odd"" one__t%s{}\'", branch text, sites text[], "old_rows" text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if $2 is not null then
        insert into msrepl.branch_marker (gid, xid, participants, originator)
        values ($2, pg_current_xact_id(), $3, session_user);
    end if;
    perform "msrepl"."mssync_change_del_the ""odd"" one__t%s{}\'"($4);
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered after calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function itself sets, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path',  E'the "odd" one.t%s{}\\'''
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
end
$msrepl$;
alter procedure "msrepl"."sp_mssync_del_the ""odd"" one__t%s{}\'"("msrepl"."mssync_shape_the ""odd"" one__t%s{}\'", text, text[], text) owner to "msrepl_owner_0123456789ab";
revoke all on procedure "msrepl"."sp_mssync_del_the ""odd"" one__t%s{}\'"("msrepl"."mssync_shape_the ""odd"" one__t%s{}\'", text, text[], text) from public;
comment on procedure "msrepl"."sp_mssync_del_the ""odd"" one__t%s{}\'"("msrepl"."mssync_shape_the ""odd"" one__t%s{}\'", text, text[], text) is  E'Applies the DELETE of a Subscriber to the "odd" one.t%s{}\\''';

-- mssync_make_<table>: makes values that only the Publisher can make (identity, sequences).
-- called by: sp_mssync_gen_<table>
-- tables:    sequences of the published table
-- holes:     function, runs_as, values, owner, caller, comment
create or replace function "msrepl"."mssync_make_the ""odd"" one__t%s{}\'"(rows integer) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
-- fragment: raises an error if a function that runs code of a table's owner does not run as its own owner.
-- called by: rendered at the beginning of functions of a table's role
-- tables:    none
-- holes:     role_text
--
-- That code also runs as the function's owner, and can remove SECURITY DEFINER or search_path from the function.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_b4c33d6dfab3' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_b4c33d6dfab3', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    return (select jsonb_agg(jsonb_build_array((nextval('public.t_seq'::regclass))::text)) from generate_series(1, $1));
end
$msrepl$;
alter function "msrepl"."mssync_make_the ""odd"" one__t%s{}\'"(integer) owner to "msrepl_table_c268110370c2_b4c33d6dfab3";
revoke all on function "msrepl"."mssync_make_the ""odd"" one__t%s{}\'"(integer) from public;
grant execute on function "msrepl"."mssync_make_the ""odd"" one__t%s{}\'"(integer) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."mssync_make_the ""odd"" one__t%s{}\'"(integer) is  E'Values that the Publisher generates for the "odd" one.t%s{}\\''';

-- sp_mssync_gen_<table>: a block of values that only the Publisher can make (identity, sequences).
-- called by: the BEFORE INSERT trigger of a Subscriber, over its link
-- tables:    none here; see mssync_make_<table>
-- holes:     function, make, path_is_kept, owner, comment
--
-- One round trip fetches values for many rows, so INSERT … RETURNING at the Subscriber shows them, and
-- the rows still travel in the statement's single call. A block that is not used up leaves a gap.
create or replace function "msrepl"."sp_mssync_gen_the ""odd"" one__t%s{}\'"(rows integer) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    made jsonb;
begin
    made := "msrepl"."mssync_make_the ""odd"" one__t%s{}\'"($1);
-- fragment: raises an error if code of a table's owner has set the search path for what follows.
-- called by: rendered after calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function itself sets, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path',  E'the "odd" one.t%s{}\\'''
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
    return made;
end
$msrepl$;
alter function "msrepl"."sp_mssync_gen_the ""odd"" one__t%s{}\'"(integer) owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."sp_mssync_gen_the ""odd"" one__t%s{}\'"(integer) from public;
comment on function "msrepl"."sp_mssync_gen_the ""odd"" one__t%s{}\'"(integer) is  E'Values that the Publisher generates for the "odd" one.t%s{}\\''';

-- ~sp_mssync_upd_trig_<table>: the trigger that gives the rows of one published table their versions.
-- called by: every INSERT and UPDATE of the table
-- tables:    the published table
-- holes:     trigger, table, role, more
--
-- ENABLE ALWAYS: a change made under session_replication_role = replica would otherwise keep the row
-- version, and a Subscriber's stale copy would pass the check.
create or replace trigger "~sp_mssync_upd_trig_the ""odd"" one__t%s{}\'"
    before insert or update on "the ""odd"" one"."t%s{}\'"
    for each row execute function msrepl.sp_mssync_upd_trig('msrepl_table_c268110370c2_b4c33d6dfab3');
alter table "the ""odd"" one"."t%s{}\'" enable always trigger "~sp_mssync_upd_trig_the ""odd"" one__t%s{}\'";

-- trg_mssync_truncate_<table>: refuses TRUNCATE of one replicated table.
-- called by: every TRUNCATE of the table
-- tables:    none
-- holes:     trigger, table
create or replace trigger "trg_mssync_truncate_the ""odd"" one__t%s{}\'"
    before truncate on "the ""odd"" one"."t%s{}\'"
    for each statement execute function msrepl.refuse_truncate();

drop routine if exists "msrepl"."sp_mssync_ins_the ""odd"" one__t%s{}\'";

drop routine if exists "msrepl"."sp_mssync_upd_the ""odd"" one__t%s{}\'";

drop routine if exists "msrepl"."sp_mssync_del_the ""odd"" one__t%s{}\'";

drop routine if exists "msrepl"."sp_mssync_gen_the ""odd"" one__t%s{}\'";

drop routine if exists "msrepl"."mssync_change_ins_the ""odd"" one__t%s{}\'";

drop routine if exists "msrepl"."mssync_change_upd_the ""odd"" one__t%s{}\'";

drop routine if exists "msrepl"."mssync_change_del_the ""odd"" one__t%s{}\'";

drop routine if exists "msrepl"."mssync_make_the ""odd"" one__t%s{}\'";

drop type if exists "msrepl"."mssync_ins_row_the ""odd"" one__t%s{}\'";

drop type if exists "msrepl"."mssync_old_row_the ""odd"" one__t%s{}\'";

drop type if exists "msrepl"."mssync_del_row_the ""odd"" one__t%s{}\'";

drop type if exists "msrepl"."mssync_shape_the ""odd"" one__t%s{}\'";
