-- msrepl.msmerge_metadata_<nickname>: metadata of the changed rows of one article.
-- called by: the triggers of the article
-- tables:    itself
-- holes:     table, tablenick, index, owner
create table "msrepl"."msmerge_metadata_7" partition of msrepl.msmerge_metadata (primary key (rowguid))
    for values in (7) with (fillfactor = 90);
create index "msmerge_metadata_7_xid" on "msrepl"."msmerge_metadata_7" (xid);
alter table "msrepl"."msmerge_metadata_7" owner to "msrepl_owner_0123456789ab";
revoke all on "msrepl"."msmerge_metadata_7" from public;

-- msrepl.msmerge_floor_<nickname>: the highest version of those rows of one article whose metadata was removed.
-- called by: the triggers of the article; msrepl.merge_clean_up
-- tables:    itself
-- holes:     sequence, owner
--
-- Versions of a row without metadata continue above it. It is a sequence because the present value is read, whatever
-- the snapshot of the application: a transaction that began before a clean-up must not assign a version again.
create sequence "msrepl"."msmerge_floor_7" as integer minvalue 0 start 0;
alter sequence "msrepl"."msmerge_floor_7" owner to "msrepl_owner_0123456789ab";
revoke all on "msrepl"."msmerge_floor_7" from public;

-- msmerge_ins_<artid>: records the rows that an INSERT has added.
-- called by: AFTER INSERT trigger of the article's table
-- tables:    transition table inserted; the article's part of msrepl.msmerge_metadata, msrepl.msmerge_floor_<nickname>
-- holes:     function, metadata, tablenick, floor, new_guid, first, again, owner, comment
--
-- At the first level of a session in the replica role, the writer is an agent, which writes the metadata too. What a
-- user's trigger does there is at a deeper level, and is a change like others. The versions of a row that was deleted
-- before continue above that of its deletion.
create or replace function "msrepl"."msmerge_ins_00112233445566778899aabbccddeeff"() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    first_version integer;
begin
    if pg_trigger_depth() = 1 and current_setting('session_replication_role') = 'replica' then
        return null;
    end if;
    first_version := coalesce(pg_sequence_last_value('"msrepl"."msmerge_floor_7"'::regclass), 0) + 1;
    insert into "msrepl"."msmerge_metadata_7" as m (tablenick, rowguid, xid, gone, own, top, colv)
    select 7, coalesce("n"."rowguid", null::uuid), pg_current_xact_id(), false, first_version, first_version, array_fill(first_version::int8, array[6])
    from inserted as n
    on conflict (rowguid) do update
    set xid = excluded.xid, gone = false, own = m.top + 1, top = m.top + 1, colv = array_fill((m.top + 1)::int8, array[6]),
        source = null, writer = null;
    return null;
end
$msrepl$;
alter function "msrepl"."msmerge_ins_00112233445566778899aabbccddeeff"() owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."msmerge_ins_00112233445566778899aabbccddeeff"() from public;
comment on function "msrepl"."msmerge_ins_00112233445566778899aabbccddeeff"() is  E'Records inserts into the "odd" one.t%s{}\\'' for merge replication';

-- msmerge_upd_<artid>: records the rows that an UPDATE has changed, and which of their columns.
-- called by: AFTER UPDATE trigger of the article's table
-- tables:    transition tables deleted and inserted; the article's part of msrepl.msmerge_metadata, msrepl.msmerge_floor_<nickname>; pg_constraint
-- holes:     function, metadata, tablenick, floor, old_guid, new_guid, changed, changed_ever, versions, owner, comment
--
-- Nested loops are off: the plan of the join is kept, and one made for few rows would be quadratic for many. If two
-- foreign keys both propagate an update, a row changes twice in one statement, and is recorded once. Other tables do
-- not pay for that. Values are compared as they are stored: under equality 1.0 is 1.00, and a cast to text, for types
-- without equality, is code of the type's author.
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
    first_version := coalesce(pg_sequence_last_value('"msrepl"."msmerge_floor_7"'::regclass), 0) + 1;
    if exists (select from pg_constraint as c where c.conrelid = tg_relid and c.contype = 'f'
               and (c.confupdtype in ('c', 'n', 'd') or c.confdeltype in ('n', 'd'))) then
        insert into "msrepl"."msmerge_metadata_7" as m (tablenick, rowguid, xid, gone, own, top, colv)
        select 7, coalesce("n"."rowguid", null::uuid), pg_current_xact_id(), false, first_version, first_version,
               array[(bool_or(row("o"."t")::record operator(pg_catalog.*<>) row("n"."t")::record)::integer * first_version)::int8,
            (bool_or(row("o"."sent")::record operator(pg_catalog.*<>) row("n"."sent")::record)::integer * first_version)::int8,
            (bool_or(row("o"."100% {x} %(y)s")::record operator(pg_catalog.*<>) row("n"."100% {x} %(y)s")::record)::integer * first_version)::int8,
            (bool_or(row("o"."it's ""so""")::record operator(pg_catalog.*<>) row("n"."it's ""so""")::record)::integer * first_version)::int8,
            (bool_or(row("o"."naïve\日本")::record operator(pg_catalog.*<>) row("n"."naïve\日本")::record)::integer * first_version)::int8,
            (bool_or(row("o"."msrepl_tran_version")::record operator(pg_catalog.*<>) row("n"."msrepl_tran_version")::record)::integer * first_version)::int8]
        from inserted as n join deleted as o on coalesce("o"."rowguid", null::uuid) operator(pg_catalog.=) coalesce("n"."rowguid", null::uuid)
        group by coalesce("n"."rowguid", null::uuid)
        on conflict (rowguid) do update
        set xid = excluded.xid, gone = false, own = m.top + 1, top = m.top + 1,
            colv = array[case excluded.colv[1] when 0 then coalesce(m.colv[1], 0) else m.top + 1 end,
            case excluded.colv[2] when 0 then coalesce(m.colv[2], 0) else m.top + 1 end,
            case excluded.colv[3] when 0 then coalesce(m.colv[3], 0) else m.top + 1 end,
            case excluded.colv[4] when 0 then coalesce(m.colv[4], 0) else m.top + 1 end,
            case excluded.colv[5] when 0 then coalesce(m.colv[5], 0) else m.top + 1 end,
            case excluded.colv[6] when 0 then coalesce(m.colv[6], 0) else m.top + 1 end],
            source = null, writer = null;
    else
        insert into "msrepl"."msmerge_metadata_7" as m (tablenick, rowguid, xid, gone, own, top, colv)
        select 7, coalesce("n"."rowguid", null::uuid), pg_current_xact_id(), false, first_version, first_version,
               array[((row("o"."t")::record operator(pg_catalog.*<>) row("n"."t")::record)::integer * first_version)::int8,
            ((row("o"."sent")::record operator(pg_catalog.*<>) row("n"."sent")::record)::integer * first_version)::int8,
            ((row("o"."100% {x} %(y)s")::record operator(pg_catalog.*<>) row("n"."100% {x} %(y)s")::record)::integer * first_version)::int8,
            ((row("o"."it's ""so""")::record operator(pg_catalog.*<>) row("n"."it's ""so""")::record)::integer * first_version)::int8,
            ((row("o"."naïve\日本")::record operator(pg_catalog.*<>) row("n"."naïve\日本")::record)::integer * first_version)::int8,
            ((row("o"."msrepl_tran_version")::record operator(pg_catalog.*<>) row("n"."msrepl_tran_version")::record)::integer * first_version)::int8]
        from inserted as n join deleted as o on coalesce("o"."rowguid", null::uuid) operator(pg_catalog.=) coalesce("n"."rowguid", null::uuid)
        on conflict (rowguid) do update
        set xid = excluded.xid, gone = false, own = m.top + 1, top = m.top + 1,
            colv = array[case excluded.colv[1] when 0 then coalesce(m.colv[1], 0) else m.top + 1 end,
            case excluded.colv[2] when 0 then coalesce(m.colv[2], 0) else m.top + 1 end,
            case excluded.colv[3] when 0 then coalesce(m.colv[3], 0) else m.top + 1 end,
            case excluded.colv[4] when 0 then coalesce(m.colv[4], 0) else m.top + 1 end,
            case excluded.colv[5] when 0 then coalesce(m.colv[5], 0) else m.top + 1 end,
            case excluded.colv[6] when 0 then coalesce(m.colv[6], 0) else m.top + 1 end],
            source = null, writer = null;
    end if;
    return null;
end
$msrepl$;
alter function "msrepl"."msmerge_upd_00112233445566778899aabbccddeeff"() owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."msmerge_upd_00112233445566778899aabbccddeeff"() from public;
comment on function "msrepl"."msmerge_upd_00112233445566778899aabbccddeeff"() is  E'Records updates of the "odd" one.t%s{}\\'' for merge replication';

-- msmerge_del_<artid>: records the rows that a DELETE has removed.
-- called by: AFTER DELETE trigger of the article's table
-- tables:    transition table deleted; the article's part of msrepl.msmerge_metadata, msrepl.msmerge_floor_<nickname>
-- holes:     function, metadata, tablenick, floor, old_guid, owner, comment
create or replace function "msrepl"."msmerge_del_00112233445566778899aabbccddeeff"() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    first_version integer;
begin
    if pg_trigger_depth() = 1 and current_setting('session_replication_role') = 'replica' then
        return null;
    end if;
    first_version := coalesce(pg_sequence_last_value('"msrepl"."msmerge_floor_7"'::regclass), 0) + 1;
    insert into "msrepl"."msmerge_metadata_7" as m (tablenick, rowguid, xid, gone, own, top)
    select 7, coalesce("o"."rowguid", null::uuid), pg_current_xact_id(), true, first_version, first_version
    from deleted as o
    on conflict (rowguid) do update
    set xid = excluded.xid, gone = true, own = m.top + 1, top = m.top + 1, source = null, writer = null;
    return null;
end
$msrepl$;
alter function "msrepl"."msmerge_del_00112233445566778899aabbccddeeff"() owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."msmerge_del_00112233445566778899aabbccddeeff"() from public;
comment on function "msrepl"."msmerge_del_00112233445566778899aabbccddeeff"() is  E'Records deletes from the "odd" one.t%s{}\\'' for merge replication';

-- msmerge_<operation>_<artid>: records the changes of an article that applications and users' triggers make.
-- called by: every INSERT, UPDATE or DELETE of the table
-- tables:    the article's table
-- holes:     trigger, event, table, referencing, function
--
-- ENABLE ALWAYS, for users' triggers that fire when an agent writes; the function itself ignores an agent's own rows.
create trigger "msmerge_ins_00112233445566778899aabbccddeeff"
    after insert on "the ""odd"" one"."t%s{}\'"
    referencing new table as inserted
    for each statement execute function "msrepl"."msmerge_ins_00112233445566778899aabbccddeeff"();
alter table "the ""odd"" one"."t%s{}\'" enable always trigger "msmerge_ins_00112233445566778899aabbccddeeff";

-- msmerge_<operation>_<artid>: records the changes of an article that applications and users' triggers make.
-- called by: every INSERT, UPDATE or DELETE of the table
-- tables:    the article's table
-- holes:     trigger, event, table, referencing, function
--
-- ENABLE ALWAYS, for users' triggers that fire when an agent writes; the function itself ignores an agent's own rows.
create trigger "msmerge_upd_00112233445566778899aabbccddeeff"
    after update on "the ""odd"" one"."t%s{}\'"
    referencing old table as deleted new table as inserted
    for each statement execute function "msrepl"."msmerge_upd_00112233445566778899aabbccddeeff"();
alter table "the ""odd"" one"."t%s{}\'" enable always trigger "msmerge_upd_00112233445566778899aabbccddeeff";

-- msmerge_<operation>_<artid>: records the changes of an article that applications and users' triggers make.
-- called by: every INSERT, UPDATE or DELETE of the table
-- tables:    the article's table
-- holes:     trigger, event, table, referencing, function
--
-- ENABLE ALWAYS, for users' triggers that fire when an agent writes; the function itself ignores an agent's own rows.
create trigger "msmerge_del_00112233445566778899aabbccddeeff"
    after delete on "the ""odd"" one"."t%s{}\'"
    referencing old table as deleted
    for each statement execute function "msrepl"."msmerge_del_00112233445566778899aabbccddeeff"();
alter table "the ""odd"" one"."t%s{}\'" enable always trigger "msmerge_del_00112233445566778899aabbccddeeff";

-- msmerge_guid_<artid>: refuses an update of the column that identifies rows.
-- called by: every UPDATE of the table that changes the column, including one by a user's BEFORE trigger
-- tables:    the article's table
-- holes:     trigger, table, rowguid, name
create trigger "msmerge_guid_00112233445566778899aabbccddeeff"
    after update on "the ""odd"" one"."t%s{}\'"
    for each row when (old."rowguid" operator(pg_catalog.<>) new."rowguid")
    execute function msrepl.merge_refuse_rowguid('rowguid');
alter table "the ""odd"" one"."t%s{}\'" enable always trigger "msmerge_guid_00112233445566778899aabbccddeeff";

-- trg_mssync_truncate_<table>: refuses TRUNCATE of one replicated table.
-- called by: every TRUNCATE of the table
-- tables:    none
-- holes:     trigger, table
create or replace trigger "trg_mssync_truncate_the ""odd"" one__t%s{}\'"
    before truncate on "the ""odd"" one"."t%s{}\'"
    for each statement execute function msrepl.refuse_truncate();

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
    if not exists (select from pg_roles where rolname = 'msrepl_table_c268110370c2_b4c33d6dfab3') then
        create role "msrepl_table_c268110370c2_b4c33d6dfab3" nologin;
        comment on role "msrepl_table_c268110370c2_b4c33d6dfab3" is  E'Writes the "odd" one.t%s{}\\'' for replication';
    end if;
end
$msrepl$;
grant usage on schema "msrepl", "the ""odd"" one" to "msrepl_table_c268110370c2_b4c33d6dfab3";
grant select, insert, update, delete on "the ""odd"" one"."t%s{}\'" to "msrepl_table_c268110370c2_b4c33d6dfab3";

-- msrepl.msmerge_row_<artid>: the type in which a row of an article is sent, without the column that identifies it.
-- called by: msmerge_write_<artid>, msmerge_log_<artid>
-- tables:    none
-- holes:     type, attributes, owner
create type "msrepl"."msmerge_row_00112233445566778899aabbccddeeff" as ("n1" integer, "n2" text, "n3" text, "n4" text, "n5" text, "n6" uuid);
alter type "msrepl"."msmerge_row_00112233445566778899aabbccddeeff" owner to "msrepl_owner_0123456789ab";

-- msmerge_conflict_<publication>_<article>: rows that have lost a conflict, or could not be applied.
-- called by: msmerge_log_<artid>
-- tables:    itself
-- holes:     table, rowguid, columns, owner, role, comment
create table "msrepl"."msmerge_conflict_merge_the ""odd"" one__t%s{}\'" (msrepl_conflict_id uuid primary key, "rowguid" uuid not null, "t" integer, "sent" text, "100% {x} %(y)s" text, "it's ""so""" text, "naïve\日本" text, "msrepl_tran_version" uuid);
alter table "msrepl"."msmerge_conflict_merge_the ""odd"" one__t%s{}\'" owner to "msrepl_owner_0123456789ab";
revoke all on "msrepl"."msmerge_conflict_merge_the ""odd"" one__t%s{}\'" from public;
grant select, insert, update on "msrepl"."msmerge_conflict_merge_the ""odd"" one__t%s{}\'" to "msrepl_table_c268110370c2_b4c33d6dfab3";
comment on table "msrepl"."msmerge_conflict_merge_the ""odd"" one__t%s{}\'" is  E'Rows that lost a conflict, or could not be applied, of the "odd" one.t%s{}\\'' for merge replication';

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

    return query
    select t."rowguid", row("t"."t", "t"."sent", "t"."100% {x} %(y)s", "t"."it's ""so""", "t"."naïve\日本", "t"."msrepl_tran_version")::text from "the ""odd"" one"."t%s{}\'" as t
    where t."rowguid" operator(pg_catalog.=) any ($1);
end
$msrepl$;
alter function "msrepl"."msmerge_read_00112233445566778899aabbccddeeff"(uuid[]) owner to "msrepl_table_c268110370c2_b4c33d6dfab3";
revoke all on function "msrepl"."msmerge_read_00112233445566778899aabbccddeeff"(uuid[]) from public;
grant execute on function "msrepl"."msmerge_read_00112233445566778899aabbccddeeff"(uuid[]) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."msmerge_read_00112233445566778899aabbccddeeff"(uuid[]) is  E'Reads rows of the "odd" one.t%s{}\\'' for merge replication';

-- msmerge_lock_<artid>: locks rows of an article in a fixed order, and returns those that exist.
-- called by: msmerge_take_<artid>
-- tables:    the article's table
-- holes:     function, runs_as, table, rowguid, owner, caller, comment
create or replace function "msrepl"."msmerge_lock_00112233445566778899aabbccddeeff"(guids uuid[]) returns table (rowguid uuid)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
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

    return query
    select t."rowguid" from "the ""odd"" one"."t%s{}\'" as t
    where t."rowguid" operator(pg_catalog.=) any ($1)
    order by t."rowguid" for update;
end
$msrepl$;
alter function "msrepl"."msmerge_lock_00112233445566778899aabbccddeeff"(uuid[]) owner to "msrepl_table_c268110370c2_b4c33d6dfab3";
revoke all on function "msrepl"."msmerge_lock_00112233445566778899aabbccddeeff"(uuid[]) from public;
grant execute on function "msrepl"."msmerge_lock_00112233445566778899aabbccddeeff"(uuid[]) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."msmerge_lock_00112233445566778899aabbccddeeff"(uuid[]) is  E'Locks rows of the "odd" one.t%s{}\\'' for merge replication';

-- msmerge_write_<artid>: writes rows of an article, in the name of the table's role.
-- called by: msmerge_take_<artid>
-- tables:    the article's table
-- holes:     function, runs_as, table, table_text, table_name, rowguid, row_type, attributes, assignments, values,
--            columns, column_count, identity_differs, owner, caller, comment
--
-- takens says which columns of an update are set, NULL: all. Rows are found one by one by their index: any other join
-- reads the whole table for each slice. Rows that exchange values of a unique key would violate it one after the
-- other: they are deleted, and inserted again, in one statement, so that foreign keys see them as updated; likewise
-- rows with another value of a GENERATED ALWAYS identity, which no UPDATE can set. A table with columns that are not
-- replicated would lose their values: there such rows fail.
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

    is_whole := 7 = (
        select count(*) from pg_attribute as a
        where a.attrelid =  E'"the ""odd"" one"."t%s{}\\''"'::regclass and a.attnum > 0 and not a.attisdropped and a.attgenerated = '');
    is_replaced := false;
    delete from "the ""odd"" one"."t%s{}\'" as t where t."rowguid" operator(pg_catalog.=) any ($1);
    get diagnostics count = row_count;
    written := count;
    if not is_replaced then
        begin
            update "the ""odd"" one"."t%s{}\'" as t
            set "t" = case when w.taken is null or (w.taken::boolean[])[1] then w."n1" else t."t" end,
                "sent" = case when w.taken is null or (w.taken::boolean[])[2] then w."n2" else t."sent" end,
                "100% {x} %(y)s" = case when w.taken is null or (w.taken::boolean[])[3] then w."n3" else t."100% {x} %(y)s" end,
                "it's ""so""" = case when w.taken is null or (w.taken::boolean[])[4] then w."n4" else t."it's ""so""" end,
                "naïve\日本" = case when w.taken is null or (w.taken::boolean[])[5] then w."n5" else t."naïve\日本" end,
                "msrepl_tran_version" = case when w.taken is null or (w.taken::boolean[])[6] then w."n6" else t."msrepl_tran_version" end
            from unnest($2, $3::"msrepl"."msmerge_row_00112233445566778899aabbccddeeff"[], $4) as w(guid, "n1", "n2", "n3", "n4", "n5", "n6", taken)
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
        raise exception 'a row of % has another identity value, and columns that do not travel',  E'the "odd" one.t%s{}\\'''
            using errcode = 'object_not_in_prerequisite_state';
    end if;
    if is_replaced then
        with removed as (
            delete from "the ""odd"" one"."t%s{}\'" as t where t."rowguid" operator(pg_catalog.=) any ($2) returning t.*
        ), complete as materialized (select count(*) as count from removed)  -- before the first is inserted
        insert into "the ""odd"" one"."t%s{}\'" ("rowguid", "t", "sent", "100% {x} %(y)s", "it's ""so""", "naïve\日本", "msrepl_tran_version") overriding system value
        select t."rowguid", case when w.taken is null or (w.taken::boolean[])[1] then w."n1" else t."t" end,
                   case when w.taken is null or (w.taken::boolean[])[2] then w."n2" else t."sent" end,
                   case when w.taken is null or (w.taken::boolean[])[3] then w."n3" else t."100% {x} %(y)s" end,
                   case when w.taken is null or (w.taken::boolean[])[4] then w."n4" else t."it's ""so""" end,
                   case when w.taken is null or (w.taken::boolean[])[5] then w."n5" else t."naïve\日本" end,
                   case when w.taken is null or (w.taken::boolean[])[6] then w."n6" else t."msrepl_tran_version" end
        from complete as c cross join removed as t
        join unnest($2, $3::"msrepl"."msmerge_row_00112233445566778899aabbccddeeff"[], $4) as w(guid, "n1", "n2", "n3", "n4", "n5", "n6", taken)
            on t."rowguid" operator(pg_catalog.=) w.guid
        where c.count > 0;
        get diagnostics count = row_count;
    end if;
    written := written + count;
    insert into "the ""odd"" one"."t%s{}\'" ("rowguid", "t", "sent", "100% {x} %(y)s", "it's ""so""", "naïve\日本", "msrepl_tran_version") overriding system value
    select w.* from unnest($5, $6::"msrepl"."msmerge_row_00112233445566778899aabbccddeeff"[]) as w;
    get diagnostics count = row_count;
    written := written + count;
    if written <> cardinality($1) + cardinality($2) + cardinality($5) then
        raise exception '% rows of % were to be written, and % were', cardinality($1) + cardinality($2) + cardinality($5),
             E'the "odd" one.t%s{}\\''', written
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'No trigger that is enabled ALWAYS or REPLICA may keep an agent from writing a row.';
    end if;
end
$msrepl$;
alter function "msrepl"."msmerge_write_00112233445566778899aabbccddeeff"(uuid[], uuid[], text[], text[], uuid[], text[]) owner to "msrepl_table_c268110370c2_b4c33d6dfab3";
revoke all on function "msrepl"."msmerge_write_00112233445566778899aabbccddeeff"(uuid[], uuid[], text[], text[], uuid[], text[]) from public;
grant execute on function "msrepl"."msmerge_write_00112233445566778899aabbccddeeff"(uuid[], uuid[], text[], text[], uuid[], text[]) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."msmerge_write_00112233445566778899aabbccddeeff"(uuid[], uuid[], text[], text[], uuid[], text[]) is  E'Writes rows of the "odd" one.t%s{}\\'' for merge replication';

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

    insert into "msrepl"."msmerge_conflict_merge_the ""odd"" one__t%s{}\'" as c (msrepl_conflict_id, "rowguid", "t", "sent", "100% {x} %(y)s", "it's ""so""", "naïve\日本", "msrepl_tran_version")
    select $1, $2, (r.v).* from (select $3::"msrepl"."msmerge_row_00112233445566778899aabbccddeeff" as v) as r
    on conflict (msrepl_conflict_id) do update set "t" = excluded."t", "sent" = excluded."sent", "100% {x} %(y)s" = excluded."100% {x} %(y)s", "it's ""so""" = excluded."it's ""so""", "naïve\日本" = excluded."naïve\日本", "msrepl_tran_version" = excluded."msrepl_tran_version";
end
$msrepl$;
alter function "msrepl"."msmerge_log_00112233445566778899aabbccddeeff"(uuid, uuid, text) owner to "msrepl_table_c268110370c2_b4c33d6dfab3";
revoke all on function "msrepl"."msmerge_log_00112233445566778899aabbccddeeff"(uuid, uuid, text) from public;
grant execute on function "msrepl"."msmerge_log_00112233445566778899aabbccddeeff"(uuid, uuid, text) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."msmerge_log_00112233445566778899aabbccddeeff"(uuid, uuid, text) is  E'Keeps a row that has lost a conflict of the "odd" one.t%s{}\\'' for merge replication';

-- msmerge_enumerate_<artid>: rows of an article that a range of generations changed, for the session's neighbour.
-- called by: merge agents, in the transaction that has closed the last of these generations
-- tables:    the article's part of msrepl.msmerge_metadata, msrepl.msmerge_genhistory; the article's table
-- holes:     function, metadata, read, lineage, changed_since, rows_max, bytes_max, path_is_kept, owner, comment
--
-- A row of the result is a slice, in arrays, which the neighbour takes as they are: all its rows are deletions, or none
-- is. What came from the neighbour is not sent back to it. Whether a row is deleted is determined from the table: a
-- trigger that deletes the row for which it fires, or restores it, is recorded before the statement that fired it.
create or replace function "msrepl"."msmerge_enumerate_00112233445566778899aabbccddeeff"(after int8, upto int8) returns table (
    gone boolean, leaves boolean, guids uuid[], gones boolean[], lineages text[], colvs text[], writers int8[], rows text[]
)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant int8 := (msrepl.merge_neighbour()).replnickname;
    me constant int8 := (select r.replica from msrepl.msmerge_replica as r);
    seen constant pg_snapshot := (select g.snap from msrepl.msmerge_genhistory as g where g.generation = $1);
    present constant pg_snapshot := (select g.snap from msrepl.msmerge_genhistory as g where g.generation = $2);
    changed uuid[];
    part uuid[];
begin
    if seen is null or present is null then
        raise exception 'generation % or % is not known here any more (21333)', $1, $2
            using errcode = 'object_not_in_prerequisite_state', hint = 'Subscribe anew.';
    end if;
    changed := array(
        select m.rowguid from "msrepl"."msmerge_metadata_7" as m
        where m.xid >= pg_snapshot_xmin(seen) and m.xid < pg_snapshot_xmax(present)
          and not pg_visible_in_snapshot(m.xid, seen) and pg_visible_in_snapshot(m.xid, present)
          and m.source is distinct from peer
        order by m.rowguid);
    for low in 1 .. cardinality(changed) by 1000 loop
        part := changed[low : low + 1000 - 1];
        return query
        select p.gone, false, array_agg(p.rowguid order by p.rowguid), array_fill(p.gone, array[count(*)::integer]),
               array_agg(p.lineage order by p.rowguid), array_agg(p.colv order by p.rowguid),
               array_agg(p.writer order by p.rowguid), array_agg(p."row" order by p.rowguid)
        from (
            select m.rowguid, r.rowguid is null as gone, coalesce(m.writer, me) as writer, r."row",
                   case when m.own = 0 then coalesce(m.lineage, '{}')::text
                        when m.lineage is null and m.own > 0 then '{' || (me << 31 | m.own) || '}'
                        when cardinality(m.lineage) = 1 then '{' || least(m.lineage[1], me << 31 | m.own)
                            || ',' || greatest(m.lineage[1], me << 31 | m.own) || '}'
                        else msrepl.merge_lineage(m.lineage, me, m.own)::text end as lineage,
                   case when m.colv is not null then array(
                       select case when c.v between 1 and 2147483647 then me << 31 | c.v else c.v end
                       from unnest(m.colv) with ordinality as c(v, place) order by c.place) end::text as colv,
                   sum(octet_length(r."row")) over (
                       partition by r.rowguid is null order by m.rowguid rows unbounded preceding) as size
            from "msrepl"."msmerge_metadata_7" as m
            left join "msrepl"."msmerge_read_00112233445566778899aabbccddeeff"(part) as r on r.rowguid = m.rowguid
            where m.rowguid = any (part)
        ) as p
        group by p.gone, p.size / 8388608
        order by p.gone, p.size / 8388608;
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

    end loop;
end
$msrepl$;
alter function "msrepl"."msmerge_enumerate_00112233445566778899aabbccddeeff"(int8, int8) owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."msmerge_enumerate_00112233445566778899aabbccddeeff"(int8, int8) from public;
comment on function "msrepl"."msmerge_enumerate_00112233445566778899aabbccddeeff"(int8, int8) is  E'Reads what generations have changed of the "odd" one.t%s{}\\'' for merge replication';

-- msmerge_hold_<artid>: locks and returns what is held here of rows that a neighbour has sent.
-- called by: merge agents that ask a resolver or a handler about rows, before merge_apply in the same transaction
-- tables:    the article's table and its part of msrepl.msmerge_metadata; msrepl.sysmergesubscriptions, msrepl.msmerge_genhistory
-- holes:     function, metadata, floor, lock, read, path_is_kept, owner, comment
--
-- Rows are locked before their metadata, as by applications.
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
alter function "msrepl"."msmerge_hold_00112233445566778899aabbccddeeff"(uuid[], int8[]) owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."msmerge_hold_00112233445566778899aabbccddeeff"(uuid[], int8[]) from public;
comment on function "msrepl"."msmerge_hold_00112233445566778899aabbccddeeff"(uuid[], int8[]) is  E'Locks and reads what is held of rows of the "odd" one.t%s{}\\'' for merge replication';

-- msmerge_amend_<artid>: sets values in rows as a change of this node: those that a resolver or a handler
-- has decided on.
-- called by: merge agents, after merge_apply in the same transaction
-- tables:    the article's part of msrepl.msmerge_metadata
-- holes:     function, metadata, write, column_tracking, count, path_is_kept, owner, comment
--
-- takens says which columns of each row are set. Our trigger ignores an agent's own changes, so their metadata is
-- written here as it would be for an application's UPDATE.
create or replace function "msrepl"."msmerge_amend_00112233445566778899aabbccddeeff"(guids uuid[], rows text[], takens text[]) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
begin
    perform msrepl.merge_neighbour();
    perform "msrepl"."msmerge_write_00112233445566778899aabbccddeeff"('{}', $1, $2, $3, '{}', '{}');
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

    update "msrepl"."msmerge_metadata_7" as m
    set xid = pg_current_xact_id(), own = m.top + 1, top = m.top + 1, source = null, writer = null,
        colv = case when true then array(
            select case when (a.taken::boolean[])[p.place] then m.top + 1 else coalesce(m.colv[p.place], 0) end
            from generate_series(1, 6) as p(place) order by p.place) end
    from unnest($1, $3) as a(guid, taken)
    where m.rowguid = a.guid;
end
$msrepl$;
alter function "msrepl"."msmerge_amend_00112233445566778899aabbccddeeff"(uuid[], text[], text[]) owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."msmerge_amend_00112233445566778899aabbccddeeff"(uuid[], text[], text[]) from public;
comment on function "msrepl"."msmerge_amend_00112233445566778899aabbccddeeff"(uuid[], text[], text[]) is  E'Puts values on rows of the "odd" one.t%s{}\\'' for merge replication';

-- msmerge_take_<artid>: decides on rows that a neighbour has sent, writes them, and records their metadata.
-- called by: msrepl.merge_apply
-- tables:    the article's table and its part of msrepl.msmerge_metadata; msrepl.msmerge_conflicts_info
-- holes:     function, metadata, tablenick, floor, lock, read, write, log, column_tracking, overwrites, first_is_known,
--            second_is_known, priority, taken, keeps_losers, foreign_rows, path_is_kept, owner, comment
--
-- Rows are locked before their metadata, as by applications; the lock of an existing row serves for both. If each
-- incoming row includes all that is held here of it, as nearly always, the rows replace those held; otherwise that is
-- undone, and each row is decided on. Lineages of up to three replicas are compared in the statement itself: a call for
-- each row would cost more than everything else. Metadata is written before the rows, so that what a user's trigger
-- then changes is recorded on top of it. What was made here, by a merge or a conflict, has no source: the neighbour
-- needs it, too. A row that the neighbour cannot know yet is deferred, and is uploaded by itself. A Subscriber's
-- changes count as its own, whichever writer it names, except for server subscriptions below it.
create or replace function "msrepl"."msmerge_take_00112233445566778899aabbccddeeff"(
    guids uuid[], gones boolean[], lineages text[], colvs text[], writers int8[], rows text[], choices text[],
    out applied integer, out skipped integer, out conflicts integer, out deferred uuid[]
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

    if cardinality(present) < cardinality($1) then
        perform from "msrepl"."msmerge_metadata_7" as m where m.rowguid = any ($1) order by m.rowguid for update;
    end if;

    if false or array_position(choices, 'held') is null then
        begin
            insert into "msrepl"."msmerge_metadata_7" as m (tablenick, rowguid, xid, gone, own, top, lineage, colv, source, writer)
            select 7, i.rowguid, pg_current_xact_id(), i.gone,
                   case when c.is_short then coalesce(c.mine & 2147483647, 0) else l.own end,
                   coalesce(case when c.is_short then c.top else l.top end, lowest),
                   case when c.is_short then array_remove(c.v, c.mine) else l.others end,
                   i.colv::int8[], peer.replnickname, nullif(i.writer, me)
            from unnest($1, $2, $3, $4, $5) as i(rowguid, gone, lineage, colv, writer)
            cross join lateral (select i.lineage::int8[] as v offset 0) as p
            cross join lateral (
                select p.v, t.top,
                       case me when p.v[1] >> 31 then p.v[1] when p.v[2] >> 31 then p.v[2] when p.v[3] >> 31 then p.v[3] end as mine,
                       num_nonnulls(p.v[1], p.v[2], p.v[3]) = cardinality(p.v) and t.top <= 2000000000
                           and coalesce(p.v[1] < p.v[2], true) and coalesce(p.v[2] < p.v[3], true) as is_short
                from (select greatest(p.v[1] & 2147483647, p.v[2] & 2147483647, p.v[3] & 2147483647) as top) as t offset 0) as c
            left join lateral (
                select f.* from msrepl.merge_lineage_parts(c.v, me) as f where c.is_short is not true offset 0) as l on true
            on conflict (rowguid) do update
            set xid = excluded.xid, gone = excluded.gone, own = excluded.own, top = excluded.top, lineage = excluded.lineage,
                colv = excluded.colv, source = excluded.source, writer = excluded.writer
            where false
                or case when excluded.own >= m.own and excluded.lineage <> coalesce(m.lineage, '{}')
                             and (m.lineage is null or cardinality(m.lineage) < 3 and cardinality(excluded.lineage) < 4
                                  and (m.lineage[1] is null or (excluded.lineage[1] between m.lineage[1] and m.lineage[1] | 2147483647 or excluded.lineage[2] between m.lineage[1] and m.lineage[1] | 2147483647 or excluded.lineage[3] between m.lineage[1] and m.lineage[1] | 2147483647)) and (m.lineage[2] is null or (excluded.lineage[1] between m.lineage[2] and m.lineage[2] | 2147483647 or excluded.lineage[2] between m.lineage[2] and m.lineage[2] | 2147483647 or excluded.lineage[3] between m.lineage[2] and m.lineage[2] | 2147483647))) then true
                        else msrepl.merge_precedes(msrepl.merge_lineage(m.lineage, me, m.own),
                                                   msrepl.merge_lineage(excluded.lineage, me, excluded.own)) end;
            get diagnostics applied = row_count;
            if applied < cardinality($1) then
                raise no_data_found;
            end if;
            skipped := 0; conflicts := 0; deferred := '{}';
        exception
            when no_data_found then
                applied := null;
        end;
    end if;
    if applied is null then
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

        perform msrepl.merge_record_conflicts(7, judgements);
        perform "msrepl"."msmerge_log_00112233445566778899aabbccddeeff"(j.conflict_id, j.rowguid, case j.verdict when 'keep' then j."row" else j.held_row end)
        from unnest(judgements) as j
        where true and j.conflict is not null and case j.verdict when 'keep' then j."row" else j.held_row end is not null;
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

        update "msrepl"."msmerge_metadata_7" as m
        set xid = pg_current_xact_id(), source = null
        from unnest(judgements) as j
        where j.verdict = 'defer' and m.rowguid = j.rowguid
          and pg_visible_in_snapshot(m.xid, (
              select g.snap from msrepl.msmerge_genhistory as g order by g.generation desc limit 1));
        select count(*) filter (where j.verdict in ('apply', 'merge', 'replace')), count(*) filter (where j.verdict = 'skip'),
               count(*) filter (where j.conflict is not null),
               coalesce(array_agg(j.rowguid) filter (where j.verdict = 'defer'), '{}')
        into applied, skipped, conflicts, deferred from unnest(judgements) as j;
        select coalesce(array_agg(j.rowguid), '{}'), array_agg(j.gone), array_agg(j.lineage::text), array_agg(j.colv::text),
               array_agg(j.writer), array_agg(j."row"), array_agg(j.taken::text), array_agg(j.verdict)
        into guids, gones, lineages, colvs, writers, rows, takens, verdicts
        from unnest(judgements) as j where j.verdict in ('apply', 'replace', 'merge', 'keep');
        insert into "msrepl"."msmerge_metadata_7" as m (tablenick, rowguid, xid, gone, own, top, lineage, colv, source, writer)
        select 7, i.rowguid, pg_current_xact_id(), i.gone, l.own, coalesce(l.top, lowest), l.others, i.colv::int8[],
               case when i.verdict is null or i.verdict = 'apply' then peer.replnickname end, nullif(i.writer, me)
        from unnest($1, $2, $3, $4, $5, verdicts) as i(rowguid, gone, lineage, colv, writer, verdict)
        cross join lateral msrepl.merge_lineage_parts(i.lineage::int8[], me) as l
        on conflict (rowguid) do update
        set xid = excluded.xid, gone = excluded.gone, own = excluded.own, top = excluded.top, lineage = excluded.lineage,
            colv = excluded.colv, source = excluded.source, writer = excluded.writer;
    end if;
    if verdicts is null and present = $1 and true <> all ($2) then  -- updates, as nearly always: nothing to separate
        perform "msrepl"."msmerge_write_00112233445566778899aabbccddeeff"('{}', $1, $6, null, '{}', '{}');
    else
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
    end if;
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
alter function "msrepl"."msmerge_take_00112233445566778899aabbccddeeff"(uuid[], boolean[], text[], text[], int8[], text[], text[]) owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."msmerge_take_00112233445566778899aabbccddeeff"(uuid[], boolean[], text[], text[], int8[], text[], text[]) from public;
comment on function "msrepl"."msmerge_take_00112233445566778899aabbccddeeff"(uuid[], boolean[], text[], text[], int8[], text[], text[]) is  E'Takes rows that a neighbour has sent into the "odd" one.t%s{}\\'' for merge replication';

-- msmerge_leave_<artid>: removes rows that have left the Subscriber's partition, with their metadata.
-- called by: msrepl.merge_apply
-- tables:    the article's table and its part of msrepl.msmerge_metadata
-- holes:     function, metadata, floor, floor_text, lock, write, stays, path_is_kept, owner, comment
--
-- This is no deletion, and is not sent to other nodes as one. A row with a change that the Publisher does not know is
-- kept: the change is uploaded first, and the Publisher then makes the row leave again. If the row comes back, its
-- versions continue above those removed.
create or replace function "msrepl"."msmerge_leave_00112233445566778899aabbccddeeff"(guids uuid[], out applied integer, out deferred uuid[])
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    peer constant msrepl.sysmergesubscriptions := msrepl.merge_neighbour();
    confirmed constant pg_snapshot := (
        select g.snap from msrepl.msmerge_genhistory as g where g.generation = peer.sentgen);
    present uuid[];
    unsent uuid[];
begin
    if not peer.is_publisher then
        raise exception 'rows leave at a Subscriber, and % is none', peer.subscriber_server
            using errcode = 'insufficient_privilege';
    end if;
    present := array(select l.rowguid from "msrepl"."msmerge_lock_00112233445566778899aabbccddeeff"($1) as l);
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

    perform from "msrepl"."msmerge_metadata_7" as m where m.rowguid = any ($1) order by m.rowguid for update;
    unsent := array(
        select m.rowguid from "msrepl"."msmerge_metadata_7" as m
        where m.rowguid = any ($1) and m.source is distinct from peer.replnickname
          and pg_visible_in_snapshot(m.xid, confirmed) is not true and true);
    present := array(select u.guid from unnest(present) as u(guid) where u.guid <> all (unsent));
    perform setval('"msrepl"."msmerge_floor_7"'::regclass, h.top) from "msrepl"."msmerge_floor_7" as f, (
        select max(m.top) as top from "msrepl"."msmerge_metadata_7" as m where m.rowguid = any ($1) and m.rowguid <> all (unsent)) as h
    where h.top > f.last_value;
    delete from "msrepl"."msmerge_metadata_7" as m where m.rowguid = any ($1) and m.rowguid <> all (unsent);
    perform "msrepl"."msmerge_write_00112233445566778899aabbccddeeff"(present, '{}', '{}', '{}', '{}', '{}');
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

    applied := cardinality(present);
    deferred := unsent;
end
$msrepl$;
alter function "msrepl"."msmerge_leave_00112233445566778899aabbccddeeff"(uuid[]) owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."msmerge_leave_00112233445566778899aabbccddeeff"(uuid[]) from public;
comment on function "msrepl"."msmerge_leave_00112233445566778899aabbccddeeff"(uuid[]) is  E'Takes away rows that have left the partition, of the "odd" one.t%s{}\\'' for merge replication';

drop trigger if exists "msmerge_ins_00112233445566778899aabbccddeeff" on "the ""odd"" one"."t%s{}\'";

drop trigger if exists "msmerge_upd_00112233445566778899aabbccddeeff" on "the ""odd"" one"."t%s{}\'";

drop trigger if exists "msmerge_del_00112233445566778899aabbccddeeff" on "the ""odd"" one"."t%s{}\'";

drop trigger if exists "msmerge_guid_00112233445566778899aabbccddeeff" on "the ""odd"" one"."t%s{}\'";

drop trigger if exists "msmerge_ref_00112233445566778899aabbccddeeff" on "the ""odd"" one"."t%s{}\'";

drop trigger if exists "trg_mssync_truncate_the ""odd"" one__t%s{}\'" on "the ""odd"" one"."t%s{}\'";

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

drop function if exists "msrepl"."msmerge_leave_00112233445566778899aabbccddeeff"(uuid[]);

drop type if exists "msrepl"."msmerge_row_00112233445566778899aabbccddeeff";

drop table if exists "msrepl"."msmerge_conflict_merge_the ""odd"" one__t%s{}\'";

-- Drops the role that writes a table, once it owns none of our functions any more.
-- called by: twopc.publisher.publication, twopc.subscriber.subscription, twopc.subscriber.propagation
-- tables:    catalogs
-- holes:     role, role_text
--
-- If another database, which is a copy of this one, has objects of the role, it stays; nobody can log in with it.
do $msrepl$
begin
    if exists (select from pg_roles where rolname = 'msrepl_table_c268110370c2_b4c33d6dfab3') and not exists (
        select from pg_proc as p join pg_roles as r on r.oid = p.proowner
        where r.rolname = 'msrepl_table_c268110370c2_b4c33d6dfab3' and p.pronamespace = to_regnamespace('msrepl')
    ) then
        drop owned by "msrepl_table_c268110370c2_b4c33d6dfab3" cascade;
        begin
            drop role "msrepl_table_c268110370c2_b4c33d6dfab3";
        exception
            when dependent_objects_still_exist then
                null;
        end;
    end if;
end
$msrepl$;

-- Drops the role that writes a table, once it owns none of our functions any more.
-- called by: twopc.publisher.publication, twopc.subscriber.subscription, twopc.subscriber.propagation
-- tables:    catalogs
-- holes:     role, role_text
--
-- If another database, which is a copy of this one, has objects of the role, it stays; nobody can log in with it.
do $msrepl$
begin
    if exists (select from pg_roles where rolname = 'msrepl_table_c268110370c2_resolver_001122334455') and not exists (
        select from pg_proc as p join pg_roles as r on r.oid = p.proowner
        where r.rolname = 'msrepl_table_c268110370c2_resolver_001122334455' and p.pronamespace = to_regnamespace('msrepl')
    ) then
        drop owned by "msrepl_table_c268110370c2_resolver_001122334455" cascade;
        begin
            drop role "msrepl_table_c268110370c2_resolver_001122334455";
        exception
            when dependent_objects_still_exist then
                null;
        end;
    end if;
end
$msrepl$;
