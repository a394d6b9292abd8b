-- mssync_shape_<table>: the one shape of rows that the sync procedures of an article take.
-- called by: first parameter of the sync procedures
-- tables:    none
-- holes:     type, shape, owner, comment
--
-- A type, because the server reads arguments from left to right: rows of another shape are not even read.
create type "msrepl"."mssync_shape_thing" as enum ('de2789e9070d');
alter type "msrepl"."mssync_shape_thing" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."mssync_shape_thing" from public;
comment on type "msrepl"."mssync_shape_thing" is 'Shape of the rows of thing that a call brings';

-- mssync_<what>_row_<table>: the rows of one article on their way from a Subscriber.
-- called by: parameters of the sync procedures
-- tables:    none
-- holes:     type, attributes, owner, comment
create type "msrepl"."mssync_ins_row_thing" as ("n1" bigint, "n2" integer, "n3" public.mood, "n4" text, "n5" uuid);
alter type "msrepl"."mssync_ins_row_thing" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."mssync_ins_row_thing" from public;
comment on type "msrepl"."mssync_ins_row_thing" is 'Rows of thing on their way from a Subscriber';

-- mssync_<what>_row_<table>: the rows of one article on their way from a Subscriber.
-- called by: parameters of the sync procedures
-- tables:    none
-- holes:     type, attributes, owner, comment
create type "msrepl"."mssync_old_row_thing" as ("k1" bigint, "v" uuid);
alter type "msrepl"."mssync_old_row_thing" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."mssync_old_row_thing" from public;
comment on type "msrepl"."mssync_old_row_thing" is 'Rows of thing on their way from a Subscriber';

-- mssync_<what>_row_<table>: the rows of one article on their way from a Subscriber.
-- called by: parameters of the sync procedures
-- tables:    none
-- holes:     type, attributes, owner, comment
create type "msrepl"."mssync_del_row_thing" as ("o1" bigint, "o2" integer, "o3" public.mood, "o4" text, "o5" uuid);
alter type "msrepl"."mssync_del_row_thing" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."mssync_del_row_thing" from public;
comment on type "msrepl"."mssync_del_row_thing" is 'Rows of thing on their way from a Subscriber';

-- mssync_change_ins_<table>: applies a Subscriber's INSERT if no unique key is taken.
-- called by: sp_mssync_ins_<table>
-- tables:    the published table
-- holes:     function, signature, rows, runs_as, before, opened, closed, table, columns, new_values,
--            new_names, clashes, article, only_key, denied, tables, after, owner, caller, comment
--
-- A plain INSERT, which waits for a row in doubt and takes deferrable constraints too (ON CONFLICT takes
-- none). What it clashed with is looked up only after it failed. Parameters have no names: PL/pgSQL may be set to
-- refuse variables that shadow them.
create or replace function "msrepl"."mssync_change_ins_thing"(text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    "new_rows" "msrepl"."mssync_ins_row_thing"[];
    sent integer;
    done integer;
    waited boolean := false;
    violated text;
    detail text;
    bad record;
begin
-- fragment: makes sure that a function that runs code of a table's owner runs in the name of its own owner.
-- called by: rendered into functions of a table's role, first
-- tables:    none
-- holes:     role_text
--
-- That code runs as the function's owner too, who may take SECURITY DEFINER or search_path away from it.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_4c4879b7063f' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_4c4879b7063f', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    new_rows := $1;
    sent := cardinality(new_rows);
    perform set_config('msrepl.syncing', 'thing', true);
    loop
        begin
            perform pg_catalog.set_config('search_path', '"pg_catalog", "sales", "pg_temp"', true);
            insert into "public"."thing" as t ("id", "nr", "mood", "name", "msrepl_tran_version") overriding system value
            select "r"."n1", "r"."n2", "r"."n3", "r"."n4", "r"."n5"
            from pg_catalog.unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5");
            get diagnostics done = row_count;
            perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
            exit;
        exception
            when unique_violation or exclusion_violation then
                get stacked diagnostics violated = constraint_name;
                select array_agg(distinct c.name) as names,
                       (array_agg(c.key))[1] as key, (array_agg(c.sent))[1] as sent,
                       (array_agg(c.held))[1] as held, (array_agg(c.image))[1] as image
                into bad
                from (
                    select 'thing_pkey', jsonb_build_object('id', "r"."n1"), r."n5"::text,
                    case when t."inside" then t."c7"::text end, case when t."inside" then (select to_jsonb(shown.*) from (select "t"."c1" as "id", "t"."c2" as "nr", "t"."c3" as "mood", "t"."c4" as "name", "t"."c5" as "twice", "t"."c6" as "loud", "t"."c7" as "msrepl_tran_version") as shown) end
                from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5") join (select "thing"."id", "thing"."nr", "thing"."mood", "thing"."name", "thing"."twice", "thing"."loud", "thing"."msrepl_tran_version", true from "public"."thing" as "thing") as t("c1", "c2", "c3", "c4", "c5", "c6", "c7", "inside") on "t"."c1" operator(pg_catalog.=) "r"."n1"
                ) as c(name, key, sent, held, image)
                group by c.key
                order by count(distinct c.name) desc
                limit 1;
                perform msrepl.raise_conflict(
                    case when cardinality(bad.names) > 1 then 'multiple_unique' else 'insert_exists' end,
                    '23505', 20515, 'thing', coalesce(bad.key, case when sent = 1 then (select jsonb_build_object('id', "r"."n1") from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5")) end), bad.sent, bad.held, bad.image,
                    format('a row of %s with the same key is at the Publisher already (%s)',
                           'thing', array_to_string(coalesce(bad.names, array[violated]), ', ')),
                    coalesce(bad.names, array[violated]));
-- fragment: says with whose rights the triggers of a published table run when a Subscriber changes it.
-- called by: rendered into the sync procedures of tables with triggers
-- tables:    none
-- holes:     article
            when insufficient_privilege then
                raise exception using
                    errcode = 'insufficient_privilege',
                    message = sqlerrm,
                    hint = format('When a Subscriber changes %s, its triggers run with the rights of role %I: '
                                  'declare their functions SECURITY DEFINER, or grant that role what they need.',
                                  'thing', current_user);
            when foreign_key_violation then
                get stacked diagnostics violated = constraint_name, detail = pg_exception_detail;
                if waited then
                    perform msrepl.raise_conflict(
                        'fk_violation', '23503', 20515, 'thing', case when sent = 1 then (select jsonb_build_object('id', "r"."n1") from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5")) end, null, null, null,
                        sqlerrm || coalesce(' (' || detail || ')', ''), array[violated]);
                end if;
                perform msrepl.await_branches(array['"public"."thing"'::regclass]::oid[]);
                waited := true;
        end;
    end loop;
    if done <> sent then
        perform msrepl.raise_conflict(
            'suppressed', '09000', 20515, 'thing', case when sent = 1 then (select jsonb_build_object('id', "r"."n1") from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5")) end, null, null, null,
            format('a trigger of the Publisher kept %s of %s rows from being inserted into %s',
                   sent - done, sent, 'thing'));
    end if;
    -- fragment: adds what was stored otherwise than it was sent to what the Subscriber asks for.
-- called by: rendered into sp_mssync_ins_<table> and sp_mssync_upd_<table> of tables with triggers or
--            generated columns
-- tables:    the published table; msrepl.touched_row
-- holes:     condition, held, rows, table, match, differs, key_json, key, article
    if true then
        declare
            there integer;
            stored text[];
            others jsonb;
        begin
            select count(*), array_agg(row("t"."id", "t"."nr", "t"."mood", "t"."name", "t"."twice", "t"."loud", "t"."msrepl_tran_version")::text) filter (where (current_setting('msrepl.take', true) = 'on' or row("t"."id", "t"."nr", "t"."mood", "t"."name", "t"."msrepl_tran_version")::text is distinct from row("r"."n1", "r"."n2", "r"."n3", "r"."n4", "r"."n5")::text)) into there, stored
            from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5") join "public"."thing" as t on "t"."id" operator(pg_catalog.=) "r"."n1";
            if there <> sent then
                perform msrepl.raise_conflict(
                    'triggered_change', '09000', 20515, 'thing', null, null, null, null,
                    format('a trigger of the Publisher gave %s of %s rows of %s another key, or deleted them',
                           sent - there, sent, 'thing'));
            end if;
            perform msrepl.check_touched('thing', array(select jsonb_build_object('id', "r"."n1") from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5")));
            perform set_config('msrepl.syncing', '', true);
            others := coalesce(nullif(current_setting('msrepl.stored', true), ''), '{}')::jsonb;
            perform set_config('msrepl.stored', jsonb_set(others, array['ins public.thing'],
                coalesce(others -> 'ins public.thing', '[]') || to_jsonb(coalesce(stored, array[]::text[])))::text, true);
        end;
    end if;

end
$msrepl$;
alter function "msrepl"."mssync_change_ins_thing"(text) owner to "msrepl_table_c268110370c2_4c4879b7063f";
revoke all on function "msrepl"."mssync_change_ins_thing"(text) from public;
grant execute on function "msrepl"."mssync_change_ins_thing"(text) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."mssync_change_ins_thing"(text) is 'Applies the INSERT of a Subscriber to thing';

-- sp_mssync_<operation>_<table>: notes whose transaction it is, and has a Subscriber's rows applied.
-- called by: a trigger of a Subscriber, over its link
-- tables:    msrepl.branch_marker; the published table is mssync_change_<operation>_<table>'s
-- holes:     procedure, parameters, change, arguments, path_is_kept, signature, owner, comment
--
-- The rows are text up to there: types may be a user's, too, and what they check is not to run as the link.
create or replace procedure "msrepl"."sp_mssync_ins_thing"(shape "msrepl"."mssync_shape_thing", branch text, sites text[], "new_rows" text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if $2 is not null then
        insert into msrepl.branch_marker (gid, xid, participants, originator)
        values ($2, pg_current_xact_id(), $3, session_user);
    end if;
    perform "msrepl"."mssync_change_ins_thing"($4);
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered behind calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function sets itself, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 'thing'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
end
$msrepl$;
alter procedure "msrepl"."sp_mssync_ins_thing"("msrepl"."mssync_shape_thing", text, text[], text) owner to "msrepl_owner_0123456789ab";
revoke all on procedure "msrepl"."sp_mssync_ins_thing"("msrepl"."mssync_shape_thing", text, text[], text) from public;
comment on procedure "msrepl"."sp_mssync_ins_thing"("msrepl"."mssync_shape_thing", text, text[], text) is 'Applies the INSERT of a Subscriber to thing';

-- mssync_change_upd_<table>: applies a Subscriber's UPDATE if no row changed since it was received.
-- called by: sp_mssync_upd_<table>
-- tables:    the published table
-- holes:     function, signature, rows, runs_as, before, opened, closed, table, assignments, old_names,
--            new_names, key_match, old_version, tables, clashes, article, only_key, denied, key_json,
--            held_version, row_json, held, inside, held_match, new_key_match, new_version, after, salt,
--            owner, caller, comment
--
-- The old and the new rows pair by position. Behind a branch that is committed at the Subscriber but still
-- prepared here the first UPDATE does not wait: the version in its snapshot is filtered out before any
-- lock is met. So a mismatch locks the rows by key, which does wait, and tries once more. What such a branch
-- has inserted cannot even be locked: then the branch itself is waited for (msrepl.await_branches). Parameters
-- have no names, as in mssync_change_ins_<table>.
create or replace function "msrepl"."mssync_change_upd_thing"(text, text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    "old_rows" "msrepl"."mssync_old_row_thing"[];
    "new_rows" "msrepl"."mssync_ins_row_thing"[];
    sent integer;
    kept integer := 0;
    again integer;
    done integer;
    waited boolean := false;
    violated text;
    detail text;
    bad record;
begin
-- fragment: makes sure that a function that runs code of a table's owner runs in the name of its own owner.
-- called by: rendered into functions of a table's role, first
-- tables:    none
-- holes:     role_text
--
-- That code runs as the function's owner too, who may take SECURITY DEFINER or search_path away from it.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_4c4879b7063f' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_4c4879b7063f', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    old_rows := $1;
    new_rows := $2;
    sent := cardinality(old_rows);
    perform set_config('msrepl.syncing', 'thing', true);
    loop
        begin
            perform pg_catalog.set_config('search_path', '"pg_catalog", "sales", "pg_temp"', true);
            update "public"."thing" as t
            set "nr" = "r"."n2", "mood" = "r"."n3", "name" = "r"."n4", "msrepl_tran_version" = "r"."n5"
            from rows from (pg_catalog.unnest(sync.old_rows), pg_catalog.unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4", "n5")
            where "t"."id" operator(pg_catalog.=) "r"."k1" and t.msrepl_tran_version operator(pg_catalog.=) r."v";
            get diagnostics again = row_count;
            perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
            done := kept + again;
            exit when done = sent;
            perform 1
            from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4", "n5")
            join "public"."thing" as t on "t"."id" operator(pg_catalog.=) "r"."k1"
            for update of t;
            perform pg_catalog.set_config('search_path', '"pg_catalog", "sales", "pg_temp"', true);
            update "public"."thing" as t
            set "nr" = "r"."n2", "mood" = "r"."n3", "name" = "r"."n4", "msrepl_tran_version" = "r"."n5"
            from rows from (pg_catalog.unnest(sync.old_rows), pg_catalog.unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4", "n5")
            where "t"."id" operator(pg_catalog.=) "r"."k1" and t.msrepl_tran_version operator(pg_catalog.=) r."v";
            get diagnostics again = row_count;
            perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
            done := done + again;
            exit when done = sent or waited;
            perform msrepl.await_branches(array['"public"."thing"'::regclass]::oid[]);
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
                    select 'thing_pkey', jsonb_build_object('id', "r"."k1"), r."v"::text,
                    case when t."inside" then t."c7"::text end, case when t."inside" then (select to_jsonb(shown.*) from (select "t"."c1" as "id", "t"."c2" as "nr", "t"."c3" as "mood", "t"."c4" as "name", "t"."c5" as "twice", "t"."c6" as "loud", "t"."c7" as "msrepl_tran_version") as shown) end
                from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4", "n5") join (select "thing"."id", "thing"."nr", "thing"."mood", "thing"."name", "thing"."twice", "thing"."loud", "thing"."msrepl_tran_version", true from "public"."thing" as "thing") as t("c1", "c2", "c3", "c4", "c5", "c6", "c7", "inside") on "t"."c1" operator(pg_catalog.=) "r"."n1"
                where not exists (select from unnest(sync.old_rows) as o("k1", "v") where "t"."c1" operator(pg_catalog.=) "o"."k1")
                ) as c(name, key, sent, held, image)
                group by c.key
                order by count(distinct c.name) desc
                limit 1;
                perform msrepl.raise_conflict(
                    case when cardinality(bad.names) > 1 then 'multiple_unique' else 'update_exists' end,
                    '23505', 20515, 'thing', coalesce(bad.key, case when sent = 1 then (select jsonb_build_object('id', "r"."k1") from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4", "n5")) end), bad.sent, bad.held, bad.image,
                    format('the UPDATE gives a row of %s a key that is taken at the Publisher (%s)',
                           'thing', array_to_string(coalesce(bad.names, array[violated]), ', ')),
                    coalesce(bad.names, array[violated]));
-- fragment: says with whose rights the triggers of a published table run when a Subscriber changes it.
-- called by: rendered into the sync procedures of tables with triggers
-- tables:    none
-- holes:     article
            when insufficient_privilege then
                raise exception using
                    errcode = 'insufficient_privilege',
                    message = sqlerrm,
                    hint = format('When a Subscriber changes %s, its triggers run with the rights of role %I: '
                                  'declare their functions SECURITY DEFINER, or grant that role what they need.',
                                  'thing', current_user);
            when foreign_key_violation then
                get stacked diagnostics violated = constraint_name, detail = pg_exception_detail;
                if waited then
                    perform msrepl.raise_conflict(
                        'fk_violation', '23503', 20515, 'thing', case when sent = 1 then (select jsonb_build_object('id', "r"."k1") from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4", "n5")) end, null, null, null,
                        sqlerrm || coalesce(' (' || detail || ')', ''), array[violated]);
                end if;
                perform msrepl.await_branches(array['"public"."thing"'::regclass]::oid[]);
                waited := true;
        end;
    end loop;
    if done <> sent then
        select jsonb_build_object('id', "r"."k1") as key, r."v"::text as sent_version,
               t."c7"::text as held_version, case when t."inside" then (select to_jsonb(shown.*) from (select "t"."c1" as "id", "t"."c2" as "nr", "t"."c3" as "mood", "t"."c4" as "name", "t"."c5" as "twice", "t"."c6" as "loud", "t"."c7" as "msrepl_tran_version") as shown) end as image
        into bad
        from rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r("k1", "v", "n1", "n2", "n3", "n4", "n5")
        left join (select "thing"."id", "thing"."nr", "thing"."mood", "thing"."name", "thing"."twice", "thing"."loud", "thing"."msrepl_tran_version", true from "public"."thing" as "thing") as t("c1", "c2", "c3", "c4", "c5", "c6", "c7", "inside") on t."inside" and "t"."c1" operator(pg_catalog.=) "r"."k1"
        where not exists (
            select from "public"."thing" as u
            where "u"."id" operator(pg_catalog.=) "r"."n1" and u.msrepl_tran_version in (
                r."n5", md5(r."n5"::text || extract(epoch from now()) || ' ' || pg_backend_pid())::uuid))
        limit 1;
        if bad.sent_version = bad.held_version then
            perform msrepl.raise_conflict(
                'suppressed', '09000', 20515, 'thing', bad.key, bad.sent_version, bad.held_version, bad.image,
                format('a trigger of the Publisher kept %s of %s rows of %s from being updated',
                       sent - done, sent, 'thing'));
        end if;
        perform msrepl.raise_conflict(
            case when bad.held_version is null then 'row_missing' else 'version_mismatch' end,
            '40001', 20515, 'thing', bad.key, bad.sent_version, bad.held_version, bad.image,
            format('rows of %s do not match between Publisher and Subscriber: %s of %s rows of the UPDATE were refused',
                   'thing', sent - done, sent));
    end if;
    -- fragment: adds what was stored otherwise than it was sent to what the Subscriber asks for.
-- called by: rendered into sp_mssync_ins_<table> and sp_mssync_upd_<table> of tables with triggers or
--            generated columns
-- tables:    the published table; msrepl.touched_row
-- holes:     condition, held, rows, table, match, differs, key_json, key, article
    if true then
        declare
            there integer;
            stored text[];
            others jsonb;
        begin
            select count(*), array_agg(row("t"."id", "t"."nr", "t"."mood", "t"."name", "t"."twice", "t"."loud", "t"."msrepl_tran_version")::text) filter (where (current_setting('msrepl.take', true) = 'on' or row("t"."id", "t"."nr", "t"."mood", "t"."name", "t"."msrepl_tran_version")::text is distinct from row("r"."n1", "r"."n2", "r"."n3", "r"."n4", "r"."n5")::text)) into there, stored
            from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5") join "public"."thing" as t on "t"."id" operator(pg_catalog.=) "r"."n1";
            if there <> sent then
                perform msrepl.raise_conflict(
                    'triggered_change', '09000', 20515, 'thing', null, null, null, null,
                    format('a trigger of the Publisher gave %s of %s rows of %s another key, or deleted them',
                           sent - there, sent, 'thing'));
            end if;
            perform msrepl.check_touched('thing', array(select jsonb_build_object('id', "r"."n1") from unnest(sync.new_rows) as r("n1", "n2", "n3", "n4", "n5")));
            perform set_config('msrepl.syncing', '', true);
            others := coalesce(nullif(current_setting('msrepl.stored', true), ''), '{}')::jsonb;
            perform set_config('msrepl.stored', jsonb_set(others, array['upd public.thing'],
                coalesce(others -> 'upd public.thing', '[]') || to_jsonb(coalesce(stored, array[]::text[])))::text, true);
        end;
    end if;

end
$msrepl$;
alter function "msrepl"."mssync_change_upd_thing"(text, text) owner to "msrepl_table_c268110370c2_4c4879b7063f";
revoke all on function "msrepl"."mssync_change_upd_thing"(text, text) from public;
grant execute on function "msrepl"."mssync_change_upd_thing"(text, text) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."mssync_change_upd_thing"(text, text) is 'Applies the UPDATE of a Subscriber to thing';

-- sp_mssync_<operation>_<table>: notes whose transaction it is, and has a Subscriber's rows applied.
-- called by: a trigger of a Subscriber, over its link
-- tables:    msrepl.branch_marker; the published table is mssync_change_<operation>_<table>'s
-- holes:     procedure, parameters, change, arguments, path_is_kept, signature, owner, comment
--
-- The rows are text up to there: types may be a user's, too, and what they check is not to run as the link.
create or replace procedure "msrepl"."sp_mssync_upd_thing"(shape "msrepl"."mssync_shape_thing", branch text, sites text[], "old_rows" text, "new_rows" text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if $2 is not null then
        insert into msrepl.branch_marker (gid, xid, participants, originator)
        values ($2, pg_current_xact_id(), $3, session_user);
    end if;
    perform "msrepl"."mssync_change_upd_thing"($4, $5);
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered behind calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function sets itself, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 'thing'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
end
$msrepl$;
alter procedure "msrepl"."sp_mssync_upd_thing"("msrepl"."mssync_shape_thing", text, text[], text, text) owner to "msrepl_owner_0123456789ab";
revoke all on procedure "msrepl"."sp_mssync_upd_thing"("msrepl"."mssync_shape_thing", text, text[], text, text) from public;
comment on procedure "msrepl"."sp_mssync_upd_thing"("msrepl"."mssync_shape_thing", text, text[], text, text) is 'Applies the UPDATE of a Subscriber to thing';

-- mssync_change_del_<table>: applies a Subscriber's DELETE if every published value is still the same.
-- called by: sp_mssync_del_<table>
-- tables:    the published table
-- holes:     function, signature, rows, runs_as, before, opened, closed, table, old_names, key_match,
--            same, tables, denied, article, only_key, key_json, old_version, held_version, row_json, held,
--            inside, held_match, owner, caller, comment
--
-- "A WHERE clause that qualifies the current row with values from the deleted table" (seed 002). A
-- mismatch locks by key and tries once more, as in mssync_change_upd_<table>. Parameters have no
-- names, as in mssync_change_ins_<table>.
create or replace function "msrepl"."mssync_change_del_thing"(text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    "old_rows" "msrepl"."mssync_del_row_thing"[];
    sent integer;
    kept integer := 0;
    again integer;
    done integer;
    waited boolean := false;
    violated text;
    detail text;
    bad record;
begin
-- fragment: makes sure that a function that runs code of a table's owner runs in the name of its own owner.
-- called by: rendered into functions of a table's role, first
-- tables:    none
-- holes:     role_text
--
-- That code runs as the function's owner too, who may take SECURITY DEFINER or search_path away from it.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_4c4879b7063f' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_4c4879b7063f', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    old_rows := $1;
    sent := cardinality(old_rows);
    
    loop
        begin
            perform pg_catalog.set_config('search_path', '"pg_catalog", "sales", "pg_temp"', true);
            delete from "public"."thing" as t
            using pg_catalog.unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5")
            where "t"."id" operator(pg_catalog.=) "r"."o1" and ("t"."nr" operator(pg_catalog.=) "r"."o2" or "t"."nr" is null and "r"."o2" is null)
            and ("t"."mood" operator(pg_catalog.=) "r"."o3" or "t"."mood" is null and "r"."o3" is null)
            and ("t"."name" operator(pg_catalog.=) "r"."o4" or "t"."name" is null and "r"."o4" is null)
            and ("t"."msrepl_tran_version" operator(pg_catalog.=) "r"."o5" or "t"."msrepl_tran_version" is null and "r"."o5" is null);
            get diagnostics again = row_count;
            perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
            done := kept + again;
            if done <> sent then
                perform 1
                from unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5")
                join "public"."thing" as t on "t"."id" operator(pg_catalog.=) "r"."o1"
                for update of t;
                perform pg_catalog.set_config('search_path', '"pg_catalog", "sales", "pg_temp"', true);
            delete from "public"."thing" as t
                using pg_catalog.unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5")
                where "t"."id" operator(pg_catalog.=) "r"."o1" and ("t"."nr" operator(pg_catalog.=) "r"."o2" or "t"."nr" is null and "r"."o2" is null)
            and ("t"."mood" operator(pg_catalog.=) "r"."o3" or "t"."mood" is null and "r"."o3" is null)
            and ("t"."name" operator(pg_catalog.=) "r"."o4" or "t"."name" is null and "r"."o4" is null)
            and ("t"."msrepl_tran_version" operator(pg_catalog.=) "r"."o5" or "t"."msrepl_tran_version" is null and "r"."o5" is null);
                get diagnostics again = row_count;
            perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
                done := done + again;
            end if;
            exit when done = sent or waited;
            perform msrepl.await_branches(array['"public"."thing"'::regclass]::oid[]);
            waited := true;
            kept := done;
        exception
-- fragment: says with whose rights the triggers of a published table run when a Subscriber changes it.
-- called by: rendered into the sync procedures of tables with triggers
-- tables:    none
-- holes:     article
            when insufficient_privilege then
                raise exception using
                    errcode = 'insufficient_privilege',
                    message = sqlerrm,
                    hint = format('When a Subscriber changes %s, its triggers run with the rights of role %I: '
                                  'declare their functions SECURITY DEFINER, or grant that role what they need.',
                                  'thing', current_user);
            when foreign_key_violation then
                get stacked diagnostics violated = constraint_name, detail = pg_exception_detail;
                if waited then
                    perform msrepl.raise_conflict(
                        'fk_violation', '23503', 20515, 'thing', case when sent = 1 then (select jsonb_build_object('id', "r"."o1") from unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5")) end, null, null, null,
                        sqlerrm || coalesce(' (' || detail || ')', ''), array[violated]);
                end if;
                perform msrepl.await_branches(array['"public"."thing"'::regclass]::oid[]);
                waited := true;
        end;
    end loop;
    if done <> sent then
        -- a row still there is stale; without one, and with several rows sent, which one was missing
        -- cannot be told from those that this call deleted
        select jsonb_build_object('id', "r"."o1") as key, r."o5"::text as sent_version,
               t."c7"::text as held_version, case when t."inside" then (select to_jsonb(shown.*) from (select "t"."c1" as "id", "t"."c2" as "nr", "t"."c3" as "mood", "t"."c4" as "name", "t"."c5" as "twice", "t"."c6" as "loud", "t"."c7" as "msrepl_tran_version") as shown) end as image
        into bad
        from unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5")
        left join (select "thing"."id", "thing"."nr", "thing"."mood", "thing"."name", "thing"."twice", "thing"."loud", "thing"."msrepl_tran_version", true from "public"."thing" as "thing") as t("c1", "c2", "c3", "c4", "c5", "c6", "c7", "inside") on t."inside" and "t"."c1" operator(pg_catalog.=) "r"."o1"
        where t."c7" is not null or sync.sent = 1
        limit 1;
        if exists (
            select from unnest(sync.old_rows) as r("o1", "o2", "o3", "o4", "o5") join "public"."thing" as t on "t"."id" operator(pg_catalog.=) "r"."o1" and ("t"."nr" operator(pg_catalog.=) "r"."o2" or "t"."nr" is null and "r"."o2" is null)
            and ("t"."mood" operator(pg_catalog.=) "r"."o3" or "t"."mood" is null and "r"."o3" is null)
            and ("t"."name" operator(pg_catalog.=) "r"."o4" or "t"."name" is null and "r"."o4" is null)
            and ("t"."msrepl_tran_version" operator(pg_catalog.=) "r"."o5" or "t"."msrepl_tran_version" is null and "r"."o5" is null)
        ) then
            perform msrepl.raise_conflict(
                'suppressed', '09000', 20515, 'thing', bad.key, bad.sent_version, bad.held_version, bad.image,
                format('a trigger of the Publisher kept %s of %s rows of %s from being deleted',
                       sent - done, sent, 'thing'));
        end if;
        perform msrepl.raise_conflict(
            case when bad.held_version is null then 'row_missing' else 'delete_stale' end,
            '40001', 20515, 'thing', bad.key, bad.sent_version, bad.held_version, bad.image,
            format('rows of %s do not match between Publisher and Subscriber: %s of %s rows of the DELETE were refused',
                   'thing', sent - done, sent));
    end if;
end
$msrepl$;
alter function "msrepl"."mssync_change_del_thing"(text) owner to "msrepl_table_c268110370c2_4c4879b7063f";
revoke all on function "msrepl"."mssync_change_del_thing"(text) from public;
grant execute on function "msrepl"."mssync_change_del_thing"(text) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."mssync_change_del_thing"(text) is 'Applies the DELETE of a Subscriber to thing';

-- sp_mssync_<operation>_<table>: notes whose transaction it is, and has a Subscriber's rows applied.
-- called by: a trigger of a Subscriber, over its link
-- tables:    msrepl.branch_marker; the published table is mssync_change_<operation>_<table>'s
-- holes:     procedure, parameters, change, arguments, path_is_kept, signature, owner, comment
--
-- The rows are text up to there: types may be a user's, too, and what they check is not to run as the link.
create or replace procedure "msrepl"."sp_mssync_del_thing"(shape "msrepl"."mssync_shape_thing", branch text, sites text[], "old_rows" text)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if $2 is not null then
        insert into msrepl.branch_marker (gid, xid, participants, originator)
        values ($2, pg_current_xact_id(), $3, session_user);
    end if;
    perform "msrepl"."mssync_change_del_thing"($4);
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered behind calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function sets itself, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 'thing'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
end
$msrepl$;
alter procedure "msrepl"."sp_mssync_del_thing"("msrepl"."mssync_shape_thing", text, text[], text) owner to "msrepl_owner_0123456789ab";
revoke all on procedure "msrepl"."sp_mssync_del_thing"("msrepl"."mssync_shape_thing", text, text[], text) from public;
comment on procedure "msrepl"."sp_mssync_del_thing"("msrepl"."mssync_shape_thing", text, text[], text) is 'Applies the DELETE of a Subscriber to thing';

-- mssync_make_<table>: makes values that only the Publisher can make (identity, sequences).
-- called by: sp_mssync_gen_<table>
-- tables:    sequences of the published table
-- holes:     function, runs_as, values, owner, caller, comment
create or replace function "msrepl"."mssync_make_thing"(rows integer) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
-- fragment: makes sure that a function that runs code of a table's owner runs in the name of its own owner.
-- called by: rendered into functions of a table's role, first
-- tables:    none
-- holes:     role_text
--
-- That code runs as the function's owner too, who may take SECURITY DEFINER or search_path away from it.
    if current_user operator(pg_catalog.<>) 'msrepl_table_c268110370c2_4c4879b7063f' then
        raise exception 'this function must run as its owner %, and runs as %', 'msrepl_table_c268110370c2_4c4879b7063f', current_user
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at who owns the table.';
    end if;
    return (select jsonb_agg(jsonb_build_array((nextval('public.thing_id_seq'::regclass))::text, (nextval('public.nr'::regclass))::text)) from generate_series(1, $1));
end
$msrepl$;
alter function "msrepl"."mssync_make_thing"(integer) owner to "msrepl_table_c268110370c2_4c4879b7063f";
revoke all on function "msrepl"."mssync_make_thing"(integer) from public;
grant execute on function "msrepl"."mssync_make_thing"(integer) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."mssync_make_thing"(integer) is 'Values that the Publisher generates for thing';

-- sp_mssync_gen_<table>: a block of values that only the Publisher can make (identity, sequences).
-- called by: the BEFORE INSERT trigger of a Subscriber, over its link
-- tables:    none here; see mssync_make_<table>
-- holes:     function, make, path_is_kept, owner, comment
--
-- One round trip fetches values for many rows; INSERT … RETURNING at the Subscriber then shows them, and
-- the rows still travel in the statement's one call. A block that is not used up leaves a gap.
create or replace function "msrepl"."sp_mssync_gen_thing"(rows integer) returns jsonb
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    made jsonb;
begin
    made := "msrepl"."mssync_make_thing"($1);
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered behind calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function sets itself, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 'thing'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
    return made;
end
$msrepl$;
alter function "msrepl"."sp_mssync_gen_thing"(integer) owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."sp_mssync_gen_thing"(integer) from public;
comment on function "msrepl"."sp_mssync_gen_thing"(integer) is 'Values that the Publisher generates for thing';

-- ~sp_mssync_upd_trig_<table>: the trigger that gives the rows of one published table their versions.
-- called by: every INSERT and UPDATE of the table
-- tables:    the published table
-- holes:     trigger, table, role, more
--
-- Always: a change made under session_replication_role = replica would else keep the version, and a
-- Subscriber's stale copy would pass the check.
create or replace trigger "~sp_mssync_upd_trig_thing"
    before insert or update on "public"."thing"
    for each row execute function msrepl.sp_mssync_upd_trig('msrepl_table_c268110370c2_4c4879b7063f');
alter table "public"."thing" enable always trigger "~sp_mssync_upd_trig_thing";

-- trg_mssync_truncate_<table>: refuses TRUNCATE of one replicated table.
-- called by: every TRUNCATE of the table
-- tables:    none
-- holes:     trigger, table
create or replace trigger "trg_mssync_truncate_thing"
    before truncate on "public"."thing"
    for each statement execute function msrepl.refuse_truncate();

drop routine if exists "msrepl"."sp_mssync_ins_thing";

drop routine if exists "msrepl"."sp_mssync_upd_thing";

drop routine if exists "msrepl"."sp_mssync_del_thing";

drop routine if exists "msrepl"."sp_mssync_gen_thing";

drop routine if exists "msrepl"."mssync_change_ins_thing";

drop routine if exists "msrepl"."mssync_change_upd_thing";

drop routine if exists "msrepl"."mssync_change_del_thing";

drop routine if exists "msrepl"."mssync_make_thing";

drop type if exists "msrepl"."mssync_ins_row_thing";

drop type if exists "msrepl"."mssync_old_row_thing";

drop type if exists "msrepl"."mssync_del_row_thing";

drop type if exists "msrepl"."mssync_shape_thing";
