create type public.mood as enum ('good', 'bad');

create table "public"."thing" (
    "id" bigint not null,
    "nr" integer not null,
    "mood" public.mood default 'good'::public.mood,
    "name" text collate pg_catalog."C",
    "twice" integer generated always as ((nr * 2)) stored,
    "loud" text generated always as (upper(name)) virtual,
    "msrepl_tran_version" uuid default gen_random_uuid() not null,
    constraint "thing_pkey" PRIMARY KEY (id)
);

-- A subscribed table must have the row version.
-- called by: twopc.subscriber.subscription, the script of a subscription
-- tables:    catalogs
-- holes:     table, table_name
do $msrepl$
begin
    if to_regclass('"public"."thing"') is null then
        raise exception 'table % does not exist in database "%"', 'thing', current_database()
            using errcode = 'object_not_in_prerequisite_state', hint = 'Create it with its rows first.';
    elsif not exists (
        select from pg_attribute as a
        where a.attrelid = to_regclass('"public"."thing"') and a.attname = 'msrepl_tran_version' and not a.attisdropped
          and a.atttypid = 'uuid'::regtype and a.attnotnull
    ) then
        raise exception 'table % has no column msrepl_tran_version uuid NOT NULL (21080)', 'thing'
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Copy the table from the Publisher together with its row versions.';
    end if;
end
$msrepl$;

grant usage on schema "public" to "msrepl_owner_0123456789ab";

-- Lets a role set session_replication_role.
-- called by: whoever makes an owner or an agent of ours
-- tables:    pg_parameter_acl
-- holes:     role
--
-- Who may set a parameter is one row of a catalog that all databases share: another session that changes it, makes
-- it or removes it is waited for, and then the command has failed.
do $msrepl$
begin
    for attempt in 1 .. 100 loop
        begin
            grant set on parameter session_replication_role to "msrepl_owner_0123456789ab";
            exit;
        exception when internal_error or unique_violation then
            if attempt = 100 or sqlerrm !~ '^tuple concurrently|"pg_parameter_acl_parname_index"$' then
                raise;
            end if;
            perform pg_catalog.pg_sleep(0.01); -- caches hear of the other's change a moment after it has let go
        end;
    end loop;
end
$msrepl$;

-- The role that writes one published or subscribed table: in whose name its owner's expressions and triggers run.
-- called by: twopc.publisher.making, twopc.subscriber.subscription, twopc.subscriber.propagation
-- tables:    none
-- holes:     role, role_text, schema, table_schema, table, privileges, comment
--
-- It owns the functions that write this table for us, and may do nothing else: who owns a table of ours may put
-- code of his own into its constraints, indexes, domains, defaults and triggers.
do $msrepl$
begin
    if not exists (select from pg_roles where rolname = 'msrepl_table_c268110370c2_4c4879b7063f') then
        create role "msrepl_table_c268110370c2_4c4879b7063f" nologin;
        comment on role "msrepl_table_c268110370c2_4c4879b7063f" is 'Writes thing for replication';
    end if;
end
$msrepl$;
grant usage on schema "msrepl", "public" to "msrepl_table_c268110370c2_4c4879b7063f";
grant select, update on "public"."thing" to "msrepl_table_c268110370c2_4c4879b7063f";

update msrepl.msreplication_objects set structure = '' where objid = '"public"."thing"'::regclass;
select msrepl.drop_triggers('"public"."thing"'::regclass);

-- trg_mssync_ver_<table>: gives an updated row its new version.
-- called by: BEFORE UPDATE row trigger of the subscribed table
-- tables:    the row in hand only
-- holes:     function, guard, salt, seal, owner, comment
--
-- "The uniqueidentifier value (generated at the Subscriber)" (seed 002). Derived from the old one and the
-- transaction: unlike any other transaction's, and to be recomputed when old and new rows are paired. The
-- transaction is told from others by its begin and its session, and not by its name, which is a setting: changed
-- between two rows of a statement, it would have them paired wrongly.
--
-- Of a partitioned table, the second half is made of the first and the transaction: see renew_version.
create or replace function "msrepl"."trg_mssync_ver_thing"() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if "new"."id" is distinct from "old"."id" then
        raise exception 'identity column id of thing cannot be updated (20510)'
            using errcode = 'generated_always';
    end if;
    new.msrepl_tran_version := md5(old.msrepl_tran_version::text || extract(epoch from now()) || ' ' || pg_backend_pid())::uuid;
    return new;
end
$msrepl$;
alter function "msrepl"."trg_mssync_ver_thing"() owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."trg_mssync_ver_thing"() from public;
comment on function "msrepl"."trg_mssync_ver_thing"() is 'Gives a new version to updated rows of thing';

-- mssync_back_row_<table>: rows as the Publisher stored them.
-- called by: trg_mssync_back_<table>
-- tables:    none
-- holes:     type, attributes, owner, comment
drop type if exists "msrepl"."mssync_back_row_thing" cascade;
create type "msrepl"."mssync_back_row_thing" as ("n1" bigint, "n2" integer, "n3" public.mood, "n4" text, "n5" integer, "n6" text, "n7" uuid);
alter type "msrepl"."mssync_back_row_thing" owner to "msrepl_owner_0123456789ab";
revoke all on type "msrepl"."mssync_back_row_thing" from public;
comment on type "msrepl"."mssync_back_row_thing" is 'Rows as the Publisher stored them, of thing';

-- trg_mssync_store_<table>: writes rows as the Publisher stored them, in the name of the table's role.
-- called by: trg_mssync_back_<table>
-- tables:    the subscribed table
-- holes:     function, runs_as, table, table_name, row_type, attributes, assignments, match, owner, caller, comment
--
-- A row that row security or a trigger of the replica role keeps as it is would differ from the Publisher's, so
-- the statement is refused.
create or replace function "msrepl"."trg_mssync_store_thing"(stored jsonb) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    taken bigint;
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

    update "public"."thing" as t
    set "nr" = "r"."n2", "mood" = "r"."n3", "name" = "r"."n4", "msrepl_tran_version" = "r"."n7"
    from unnest(array(select jsonb_array_elements_text($1))::"msrepl"."mssync_back_row_thing"[]) as r("n1", "n2", "n3", "n4", "n5", "n6", "n7")
    where "t"."id" operator(pg_catalog.=) "r"."n1";
    get diagnostics taken = row_count;
    if taken <> jsonb_array_length($1) then
        raise exception 'the Publisher stored % rows of % otherwise than they were sent, and % of them could be changed here',
            jsonb_array_length($1), 'thing', taken
            using errcode = 'object_not_in_prerequisite_state',
                  hint = format('Row security of this table must let role %s see and change all of its rows, and no trigger that is enabled ALWAYS or REPLICA may keep it from that.', current_user);
    end if;
end
$msrepl$;
alter function "msrepl"."trg_mssync_store_thing"(jsonb) owner to "msrepl_table_c268110370c2_4c4879b7063f";
revoke all on function "msrepl"."trg_mssync_store_thing"(jsonb) from public;
grant execute on function "msrepl"."trg_mssync_store_thing"(jsonb) to "msrepl_owner_0123456789ab";
comment on function "msrepl"."trg_mssync_store_thing"(jsonb) is 'Writes rows as the Publisher stored them in thing';

-- trg_mssync_back_<table>: takes over what the Publisher stored otherwise than it was sent.
-- called by: capture triggers of the subscribed table, send_held
-- tables:    none here; see trg_mssync_store_<table>
-- holes:     function, store, path_is_kept, owner, comment
--
-- In the replica role, so that no trigger takes this for a change of the application's: ours would send it,
-- a user's has seen the row already. Foreign keys were checked at the Publisher.
-- What the link has printed is read as it was meant there, whatever the application's session is set to.
create or replace function "msrepl"."trg_mssync_back_thing"(stored jsonb) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set session_replication_role = replica
set datestyle = 'ISO' set intervalstyle = 'postgres' set array_nulls = on set xmloption = content
as $msrepl$
begin
    perform "msrepl"."trg_mssync_store_thing"($1);
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
alter function "msrepl"."trg_mssync_back_thing"(jsonb) owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."trg_mssync_back_thing"(jsonb) from public;
comment on function "msrepl"."trg_mssync_back_thing"(jsonb) is 'Takes over what the Publisher stored in thing';

-- trg_mssync_ins_<table>: sends the rows that a statement inserted to the Publisher, in one call.
-- called by: AFTER INSERT trigger of the subscribed table
-- tables:    transition table inserted; msrepl.branch_marker
-- holes:     function, new_columns, variables, before, ship, owner, comment
create or replace function "msrepl"."trg_mssync_ins_thing"() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off
set datestyle = 'ISO' set intervalstyle = 'postgres' set extra_float_digits = 1
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    news text;
    arguments text;
    step constant integer := 1;
    sent integer;
    level boolean;
    queued text;
    transaction text;
    call text;
    detail text;
    context text;
    hint text;
    marker tid;
    sites text[];
    stored text;
begin
    select array(select row("n"."id", "n"."nr", "n"."mood", "n"."name", "n"."msrepl_tran_version") from inserted as n)::text into news;
    if news = '{}' then
        return null;
    end if;
    arguments := quote_literal(news);
-- fragment: ships one call to the Publisher, or queues it; the tail of every capture trigger.
-- called by: rendered into capture_insert, capture_update, capture_delete (a function of its own would cost
--            more than these lines)
-- tables:    msrepl.branch_marker
-- holes:     call, own_branch, publisher_branch, sites, sites_text, table_name, send, send_again, after
--
-- `calls` counts what was sent in this branch. It rolls back with the caller's savepoint, and every message
-- first takes the Publisher's transaction back to the savepoint that it names: the remote side follows the
-- local one without asking how far it got, and a remote side left in error is revived by the same words.
-- A savepoint to which the caller cannot roll back any more, because this call and the one before belong to
-- the same subtransaction, is released: nested ever deeper, they would make each call dearer than the last.
-- (Who wrote the row last tells, unless the guard has in between, which asks in any subtransaction.)
--
-- Over several Subscribers, msrepl.participants names all branches, this one's at the Publisher first; what
-- it says goes into the marker row, and prepare_branch refuses what the coordinator did not say.
--
-- The setting msrepl.marker only says where the marker row is. A user who changes it gets an error: the
-- row's xid is checked, and without the setting a second marker of the same xid is refused. An index would be
-- slower, and under SERIALIZABLE its pages would make unrelated transactions conflict. (The functions set
-- enable_seqscan off: a plan made while the table was small would scan it for ever.)
    sync.marker := nullif(current_setting('msrepl.marker', true), '')::tid;
    if sync.marker is not null then
        sync.call := 'set local msrepl.stored = '''';call "msrepl"."sp_mssync_ins_thing"(''de2789e9070d'',' || 'null,null,' || sync.arguments || ')';
        update msrepl.branch_marker as m
        set calls = m.calls + sync.step,
            prior = case when m.asked_at is null then m.xmin end,
            asked_at = null,
            pending = case when sync.step = 0 then coalesce(m.pending || ';', '') || sync.call
                           else m.pending end
        where m.ctid = sync.marker and m.xid = pg_current_xact_id() and not m.prepared
        returning m.calls, m.pending, set_config('msrepl.marker', m.ctid::text, true)::tid, m.prior = m.xmin and m.pending is null
        into sync.sent, sync.queued, sync.marker, sync.level;
    else
        sync.transaction := msrepl.name_transaction('thing');
        sync.sites := nullif(current_setting('msrepl.participants', true), '')::text[];
        sync.call := 'set local msrepl.stored = '''';call "msrepl"."sp_mssync_ins_thing"(''de2789e9070d'',' || quote_literal(sync.transaction || coalesce(':' || sync.sites[1], ':pub'))
            || ',' || coalesce(quote_literal(sync.sites), 'array[''pub'', ''sub1'']') || ',' || sync.arguments || ')';
        insert into msrepl.branch_marker as m (gid, xid, participants, calls, pending)
        values (sync.transaction || ':sub1', pg_current_xact_id(), coalesce(sync.sites, array['pub', 'sub1']), sync.step,
                case when sync.step = 0 then sync.call end)
        on conflict (xid) do nothing
        -- in here, because after SET CONSTRAINTS ALL IMMEDIATE the guard puts it elsewhere before the next statement
        returning m.calls, set_config('msrepl.marker', m.ctid::text, true)::tid into sync.sent, sync.marker;
    end if;
    if sync.sent is null then
        perform msrepl.raise_uncoordinated('thing');
    end if;
    if sync.step = 0 then
        -- appending copies the text: what has grown long is sent
        if length(sync.queued) > 16384 then
            perform msrepl.flush();
        end if;
        return null;
    end if;
    if sync.sent = 1 then
        sync.call := 'rollback;begin isolation level ' || current_setting('transaction_isolation')
            || coalesce(';' || sync.queued, '') || ';' || sync.call || ';savepoint s1';
    else
        sync.call := 'rollback to s' || sync.sent - 1 || coalesce(';' || sync.queued, '') || ';' || sync.call
            || case when sync.level then ';release s' || sync.sent - 1 else '' end || ';savepoint s' || sync.sent;
    end if;
    begin
        -- fragment: sends a call and asks, in the same message, for what the Publisher stored otherwise.
-- called by: rendered into ship for tables that take rows back
-- tables:    none
-- holes:     none
        sync.stored := msrepl.query_link(sync.call || $query$;select current_setting('msrepl.stored', true)$query$);

    exception
        when query_canceled then
            perform msrepl.drain_link();
            raise;
        when others then
            get stacked diagnostics detail = pg_exception_detail, context = pg_exception_context, hint = pg_exception_hint;
            if not msrepl.ship_again(sqlstate, sqlerrm, detail, sync.sent = 1, sync.call, context, hint) then
                raise;
            end if;
            sync.stored := msrepl.fetch_stored();
    end;-- fragment: writes back what the Publisher stored otherwise than it was sent.
-- called by: rendered into ship for tables that take rows back
-- tables:    none here; see write_back
-- holes:     key, write_back

    if jsonb_array_length(nullif(sync.stored, '')::jsonb -> 'ins public.thing') > 0 then
        perform "msrepl"."trg_mssync_back_thing"(sync.stored::jsonb -> 'ins public.thing');
    end if;

    if sync.queued is not null then
        update msrepl.branch_marker as m set pending = null where m.ctid = sync.marker
        returning set_config('msrepl.marker', m.ctid::text, true)::tid into sync.marker;
    end if;
    return null;

end
$msrepl$;
alter function "msrepl"."trg_mssync_ins_thing"() owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."trg_mssync_ins_thing"() from public;
comment on function "msrepl"."trg_mssync_ins_thing"() is 'Sends to the Publisher what was inserted into thing';

-- trg_mssync_upd_<table>: sends the rows that an UPDATE changed to the Publisher, in one call.
-- called by: AFTER UPDATE trigger of the subscribed table
-- tables:    transition tables deleted and inserted; msrepl.branch_marker
-- holes:     function, old_columns, new_columns, salt, variables, before, ship, owner, comment
--
-- Old and new rows pair by position. Transition tables promise no order, so several rows are sorted: a new
-- row's version was derived from its old one (trg_mssync_ver_<table>), and sorting both by it puts them in
-- the same order even when keys changed. No join: a cached plan of one goes quadratic.
create or replace function "msrepl"."trg_mssync_upd_thing"() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off
set datestyle = 'ISO' set intervalstyle = 'postgres' set extra_float_digits = 1
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    several boolean;
    olds text;
    news text;
    salt text;
    arguments text;
    step constant integer := 1;
    sent integer;
    level boolean;
    queued text;
    transaction text;
    call text;
    detail text;
    context text;
    hint text;
    marker tid;
    sites text[];
    stored text;
begin
    select array(select row("o"."id", "o"."msrepl_tran_version") from deleted as o limit 1)::text,
           array(select row("n"."id", "n"."nr", "n"."mood", "n"."name", "n"."msrepl_tran_version") from inserted as n limit 1)::text,
           exists (select from deleted offset 1)
    into olds, news, several;
    if olds = '{}' then
        return null;
    elsif several then
        salt := extract(epoch from now()) || ' ' || pg_backend_pid();
        select array(select row("o"."id", "o"."msrepl_tran_version") from deleted as o
                     order by md5(o.msrepl_tran_version::text || sync.salt)::uuid)::text,
               array(select row("n"."id", "n"."nr", "n"."mood", "n"."name", "n"."msrepl_tran_version") from inserted as n order by n.msrepl_tran_version)::text
        into olds, news;
    end if;
    arguments := quote_literal(olds) || ',' || quote_literal(news);
-- fragment: ships one call to the Publisher, or queues it; the tail of every capture trigger.
-- called by: rendered into capture_insert, capture_update, capture_delete (a function of its own would cost
--            more than these lines)
-- tables:    msrepl.branch_marker
-- holes:     call, own_branch, publisher_branch, sites, sites_text, table_name, send, send_again, after
--
-- `calls` counts what was sent in this branch. It rolls back with the caller's savepoint, and every message
-- first takes the Publisher's transaction back to the savepoint that it names: the remote side follows the
-- local one without asking how far it got, and a remote side left in error is revived by the same words.
-- A savepoint to which the caller cannot roll back any more, because this call and the one before belong to
-- the same subtransaction, is released: nested ever deeper, they would make each call dearer than the last.
-- (Who wrote the row last tells, unless the guard has in between, which asks in any subtransaction.)
--
-- Over several Subscribers, msrepl.participants names all branches, this one's at the Publisher first; what
-- it says goes into the marker row, and prepare_branch refuses what the coordinator did not say.
--
-- The setting msrepl.marker only says where the marker row is. A user who changes it gets an error: the
-- row's xid is checked, and without the setting a second marker of the same xid is refused. An index would be
-- slower, and under SERIALIZABLE its pages would make unrelated transactions conflict. (The functions set
-- enable_seqscan off: a plan made while the table was small would scan it for ever.)
    sync.marker := nullif(current_setting('msrepl.marker', true), '')::tid;
    if sync.marker is not null then
        sync.call := 'set local msrepl.stored = '''';call "msrepl"."sp_mssync_upd_thing"(''de2789e9070d'',' || 'null,null,' || sync.arguments || ')';
        update msrepl.branch_marker as m
        set calls = m.calls + sync.step,
            prior = case when m.asked_at is null then m.xmin end,
            asked_at = null,
            pending = case when sync.step = 0 then coalesce(m.pending || ';', '') || sync.call
                           else m.pending end
        where m.ctid = sync.marker and m.xid = pg_current_xact_id() and not m.prepared
        returning m.calls, m.pending, set_config('msrepl.marker', m.ctid::text, true)::tid, m.prior = m.xmin and m.pending is null
        into sync.sent, sync.queued, sync.marker, sync.level;
    else
        sync.transaction := msrepl.name_transaction('thing');
        sync.sites := nullif(current_setting('msrepl.participants', true), '')::text[];
        sync.call := 'set local msrepl.stored = '''';call "msrepl"."sp_mssync_upd_thing"(''de2789e9070d'',' || quote_literal(sync.transaction || coalesce(':' || sync.sites[1], ':pub'))
            || ',' || coalesce(quote_literal(sync.sites), 'array[''pub'', ''sub1'']') || ',' || sync.arguments || ')';
        insert into msrepl.branch_marker as m (gid, xid, participants, calls, pending)
        values (sync.transaction || ':sub1', pg_current_xact_id(), coalesce(sync.sites, array['pub', 'sub1']), sync.step,
                case when sync.step = 0 then sync.call end)
        on conflict (xid) do nothing
        -- in here, because after SET CONSTRAINTS ALL IMMEDIATE the guard puts it elsewhere before the next statement
        returning m.calls, set_config('msrepl.marker', m.ctid::text, true)::tid into sync.sent, sync.marker;
    end if;
    if sync.sent is null then
        perform msrepl.raise_uncoordinated('thing');
    end if;
    if sync.step = 0 then
        -- appending copies the text: what has grown long is sent
        if length(sync.queued) > 16384 then
            perform msrepl.flush();
        end if;
        return null;
    end if;
    if sync.sent = 1 then
        sync.call := 'rollback;begin isolation level ' || current_setting('transaction_isolation')
            || coalesce(';' || sync.queued, '') || ';' || sync.call || ';savepoint s1';
    else
        sync.call := 'rollback to s' || sync.sent - 1 || coalesce(';' || sync.queued, '') || ';' || sync.call
            || case when sync.level then ';release s' || sync.sent - 1 else '' end || ';savepoint s' || sync.sent;
    end if;
    begin
        -- fragment: sends a call and asks, in the same message, for what the Publisher stored otherwise.
-- called by: rendered into ship for tables that take rows back
-- tables:    none
-- holes:     none
        sync.stored := msrepl.query_link(sync.call || $query$;select current_setting('msrepl.stored', true)$query$);

    exception
        when query_canceled then
            perform msrepl.drain_link();
            raise;
        when others then
            get stacked diagnostics detail = pg_exception_detail, context = pg_exception_context, hint = pg_exception_hint;
            if not msrepl.ship_again(sqlstate, sqlerrm, detail, sync.sent = 1, sync.call, context, hint) then
                raise;
            end if;
            sync.stored := msrepl.fetch_stored();
    end;-- fragment: writes back what the Publisher stored otherwise than it was sent.
-- called by: rendered into ship for tables that take rows back
-- tables:    none here; see write_back
-- holes:     key, write_back

    if jsonb_array_length(nullif(sync.stored, '')::jsonb -> 'upd public.thing') > 0 then
        perform "msrepl"."trg_mssync_back_thing"(sync.stored::jsonb -> 'upd public.thing');
    end if;

    if sync.queued is not null then
        update msrepl.branch_marker as m set pending = null where m.ctid = sync.marker
        returning set_config('msrepl.marker', m.ctid::text, true)::tid into sync.marker;
    end if;
    return null;

end
$msrepl$;
alter function "msrepl"."trg_mssync_upd_thing"() owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."trg_mssync_upd_thing"() from public;
comment on function "msrepl"."trg_mssync_upd_thing"() is 'Sends to the Publisher what was updated in thing';

-- trg_mssync_del_<table>: sends the rows that a statement deleted to the Publisher, in one call.
-- called by: AFTER DELETE trigger of the subscribed table
-- tables:    transition table deleted; msrepl.branch_marker
-- holes:     function, old_columns, variables, before, ship, owner, comment
create or replace function "msrepl"."trg_mssync_del_thing"() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off
set datestyle = 'ISO' set intervalstyle = 'postgres' set extra_float_digits = 1
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    olds text;
    arguments text;
    step constant integer := case when current_setting('msrepl.shipping', true) = 'lazy' then 0 else 1 end;
    sent integer;
    level boolean;
    queued text;
    transaction text;
    call text;
    detail text;
    context text;
    hint text;
    marker tid;
    sites text[];
begin
    select array(select row("o"."id", "o"."nr", "o"."mood", "o"."name", "o"."msrepl_tran_version") from deleted as o)::text into olds;
    if olds = '{}' then
        return null;
    end if;
    arguments := quote_literal(olds);
-- fragment: ships one call to the Publisher, or queues it; the tail of every capture trigger.
-- called by: rendered into capture_insert, capture_update, capture_delete (a function of its own would cost
--            more than these lines)
-- tables:    msrepl.branch_marker
-- holes:     call, own_branch, publisher_branch, sites, sites_text, table_name, send, send_again, after
--
-- `calls` counts what was sent in this branch. It rolls back with the caller's savepoint, and every message
-- first takes the Publisher's transaction back to the savepoint that it names: the remote side follows the
-- local one without asking how far it got, and a remote side left in error is revived by the same words.
-- A savepoint to which the caller cannot roll back any more, because this call and the one before belong to
-- the same subtransaction, is released: nested ever deeper, they would make each call dearer than the last.
-- (Who wrote the row last tells, unless the guard has in between, which asks in any subtransaction.)
--
-- Over several Subscribers, msrepl.participants names all branches, this one's at the Publisher first; what
-- it says goes into the marker row, and prepare_branch refuses what the coordinator did not say.
--
-- The setting msrepl.marker only says where the marker row is. A user who changes it gets an error: the
-- row's xid is checked, and without the setting a second marker of the same xid is refused. An index would be
-- slower, and under SERIALIZABLE its pages would make unrelated transactions conflict. (The functions set
-- enable_seqscan off: a plan made while the table was small would scan it for ever.)
    sync.marker := nullif(current_setting('msrepl.marker', true), '')::tid;
    if sync.marker is not null then
        sync.call := 'call "msrepl"."sp_mssync_del_thing"(''de2789e9070d'',' || 'null,null,' || sync.arguments || ')';
        update msrepl.branch_marker as m
        set calls = m.calls + sync.step,
            prior = case when m.asked_at is null then m.xmin end,
            asked_at = null,
            pending = case when sync.step = 0 then coalesce(m.pending || ';', '') || sync.call
                           else m.pending end
        where m.ctid = sync.marker and m.xid = pg_current_xact_id() and not m.prepared
        returning m.calls, m.pending, set_config('msrepl.marker', m.ctid::text, true)::tid, m.prior = m.xmin and m.pending is null
        into sync.sent, sync.queued, sync.marker, sync.level;
    else
        sync.transaction := msrepl.name_transaction('thing');
        sync.sites := nullif(current_setting('msrepl.participants', true), '')::text[];
        sync.call := 'call "msrepl"."sp_mssync_del_thing"(''de2789e9070d'',' || quote_literal(sync.transaction || coalesce(':' || sync.sites[1], ':pub'))
            || ',' || coalesce(quote_literal(sync.sites), 'array[''pub'', ''sub1'']') || ',' || sync.arguments || ')';
        insert into msrepl.branch_marker as m (gid, xid, participants, calls, pending)
        values (sync.transaction || ':sub1', pg_current_xact_id(), coalesce(sync.sites, array['pub', 'sub1']), sync.step,
                case when sync.step = 0 then sync.call end)
        on conflict (xid) do nothing
        -- in here, because after SET CONSTRAINTS ALL IMMEDIATE the guard puts it elsewhere before the next statement
        returning m.calls, set_config('msrepl.marker', m.ctid::text, true)::tid into sync.sent, sync.marker;
    end if;
    if sync.sent is null then
        perform msrepl.raise_uncoordinated('thing');
    end if;
    if sync.step = 0 then
        -- appending copies the text: what has grown long is sent
        if length(sync.queued) > 16384 then
            perform msrepl.flush();
        end if;
        return null;
    end if;
    if sync.sent = 1 then
        sync.call := 'rollback;begin isolation level ' || current_setting('transaction_isolation')
            || coalesce(';' || sync.queued, '') || ';' || sync.call || ';savepoint s1';
    else
        sync.call := 'rollback to s' || sync.sent - 1 || coalesce(';' || sync.queued, '') || ';' || sync.call
            || case when sync.level then ';release s' || sync.sent - 1 else '' end || ';savepoint s' || sync.sent;
    end if;
    begin
        sync.call := msrepl_link.dblink_exec('msrepl', sync.call);
    exception
        when query_canceled then
            perform msrepl.drain_link();
            raise;
        when others then
            get stacked diagnostics detail = pg_exception_detail, context = pg_exception_context, hint = pg_exception_hint;
            if not msrepl.ship_again(sqlstate, sqlerrm, detail, sync.sent = 1, sync.call, context, hint) then
                raise;
            end if;
    end;
    if sync.queued is not null then
        update msrepl.branch_marker as m set pending = null where m.ctid = sync.marker
        returning set_config('msrepl.marker', m.ctid::text, true)::tid into sync.marker;
    end if;
    return null;

end
$msrepl$;
alter function "msrepl"."trg_mssync_del_thing"() owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."trg_mssync_del_thing"() from public;
comment on function "msrepl"."trg_mssync_del_thing"() is 'Sends to the Publisher what was deleted from thing';

-- trg_mssync_gen_<table>: fills in values that only the Publisher can make.
-- called by: BEFORE INSERT row trigger of the subscribed table
-- tables:    none here; sequences at the Publisher
-- holes:     function, missing, take, setting, generator, owner, comment
--
-- So INSERT ... RETURNING shows the Publisher's values, and the rows still travel in one call. Values come
-- in growing blocks, which the transaction keeps in a setting; what it does not use is a gap in a sequence.
create or replace function "msrepl"."trg_mssync_gen_thing"() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    block jsonb;
    made jsonb;
begin
    if "new"."id" is null or "new"."nr" is null then
        block := nullif(current_setting('msrepl.generated_4c4879b7063f678e', true), '')::jsonb;
        if block is null or jsonb_array_length(block -> 'rows') = 0 then
            block := msrepl.fetch_generated('"msrepl"."sp_mssync_gen_thing"', coalesce((block ->> 'size')::integer, 0));
        end if;
        made := block -> 'rows' -> 0;
        perform set_config('msrepl.generated_4c4879b7063f678e', jsonb_set(block, array['rows'], (block -> 'rows') - 0)::text, true);
        "new"."id" := coalesce("new"."id", (made ->> 0)::bigint);
        "new"."nr" := coalesce("new"."nr", (made ->> 1)::integer);
    end if;
    return new;
end
$msrepl$;
alter function "msrepl"."trg_mssync_gen_thing"() owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."trg_mssync_gen_thing"() from public;
comment on function "msrepl"."trg_mssync_gen_thing"() is 'Fills in values that the Publisher makes for thing';

-- ~trg_mssync_ver_<table>, ~trg_mssync_new_<table>, !trg_mssync_gen_<table>: change a row before it is stored.
-- called by: every such row
-- tables:    the subscribed table
-- holes:     trigger, event, table, function
create or replace trigger "~trg_mssync_ver_thing"
    before update on "public"."thing"
    for each row execute function "msrepl"."trg_mssync_ver_thing"();

-- ~trg_mssync_ver_<table>, ~trg_mssync_new_<table>, !trg_mssync_gen_<table>: change a row before it is stored.
-- called by: every such row
-- tables:    the subscribed table
-- holes:     trigger, event, table, function
create or replace trigger "~trg_mssync_new_thing"
    before insert on "public"."thing"
    for each row execute function "msrepl"."renew_version"();

-- ~trg_mssync_ver_<table>, ~trg_mssync_new_<table>, !trg_mssync_gen_<table>: change a row before it is stored.
-- called by: every such row
-- tables:    the subscribed table
-- holes:     trigger, event, table, function
create or replace trigger "!trg_mssync_gen_thing"
    before insert on "public"."thing"
    for each row execute function "msrepl"."trg_mssync_gen_thing"();

-- !trg_mssync_<operation>_<table>: captures one kind of statement on one subscribed table.
-- called by: every such statement, or its first row; fires first, because PostgreSQL fires by name
-- tables:    the subscribed table
-- holes:     trigger, event, table, referencing, each, function
create or replace trigger "!trg_mssync_ins_thing"
    after insert on "public"."thing"
    referencing new table as inserted
    for each statement execute function "msrepl"."trg_mssync_ins_thing"();

-- !trg_mssync_<operation>_<table>: captures one kind of statement on one subscribed table.
-- called by: every such statement, or its first row; fires first, because PostgreSQL fires by name
-- tables:    the subscribed table
-- holes:     trigger, event, table, referencing, each, function
create or replace trigger "!trg_mssync_upd_thing"
    after update on "public"."thing"
    referencing old table as deleted new table as inserted
    for each statement execute function "msrepl"."trg_mssync_upd_thing"();

-- !trg_mssync_<operation>_<table>: captures one kind of statement on one subscribed table.
-- called by: every such statement, or its first row; fires first, because PostgreSQL fires by name
-- tables:    the subscribed table
-- holes:     trigger, event, table, referencing, each, function
create or replace trigger "!trg_mssync_del_thing"
    after delete on "public"."thing"
    referencing old table as deleted
    for each statement execute function "msrepl"."trg_mssync_del_thing"();

-- trg_mssync_truncate_<table>: refuses TRUNCATE of one replicated table.
-- called by: every TRUNCATE of the table
-- tables:    none
-- holes:     trigger, table
create or replace trigger "trg_mssync_truncate_thing"
    before truncate on "public"."thing"
    for each statement execute function msrepl.refuse_truncate();

-- The row of a subscribed table: what is needed to call for it, and to take the subscription away again.
-- called by: twopc.subscriber.subscription, the script of a subscription
-- tables:    msrepl.msreplication_objects
-- holes:     table, schema, article, created_table, added_version, added_keys, routines, parents, calls,
--            write_back
insert into msrepl.msreplication_objects as o
    (objid, dest_schema, article, created_table, added_version, added_keys, structure, routines, fingerprints,
     parents, sync_calls, write_back)
select '"public"."thing"'::regclass, 'public', 'thing', true, false, array[]::text[],
       msrepl.table_structure('"public"."thing"'::regclass),
       array(select p.oid from pg_proc p
             where p.pronamespace = 'msrepl'::regnamespace and p.proname::text = any (array['trg_mssync_ins_thing', 'trg_mssync_upd_thing', 'trg_mssync_del_thing']::text[])),
       msrepl.fingerprints('"public"."thing"'::regclass),
       array(select to_regclass(t)::oid from unnest(array[]::text[]) as t),  E'{"ins": "call \\"msrepl\\".\\"sp_mssync_ins_thing\\"(''de2789e9070d'',", "upd": "call \\"msrepl\\".\\"sp_mssync_upd_thing\\"(''de2789e9070d'',", "del": "call \\"msrepl\\".\\"sp_mssync_del_thing\\"(''de2789e9070d'',"}'::jsonb, '"msrepl"."trg_mssync_back_thing"'
on conflict (objid) do update
set dest_schema = excluded.dest_schema, article = excluded.article, structure = excluded.structure,
    routines = excluded.routines, fingerprints = excluded.fingerprints, parents = excluded.parents,
    sync_calls = excluded.sync_calls, write_back = excluded.write_back, stale = null;
select msrepl.deactivate(null);

drop function if exists "msrepl"."trg_mssync_ver_thing";

drop function if exists "msrepl"."trg_mssync_ins_thing";

drop function if exists "msrepl"."trg_mssync_upd_thing";

drop function if exists "msrepl"."trg_mssync_del_thing";

drop function if exists "msrepl"."trg_mssync_gen_thing";

drop function if exists "msrepl"."trg_mssync_back_thing";

drop function if exists "msrepl"."trg_mssync_store_thing";

drop type if exists "msrepl"."mssync_back_row_thing";

-- Drops the role that writes a table, once it owns none of our functions any more.
-- called by: twopc.publisher.publication, twopc.subscriber.subscription, twopc.subscriber.propagation
-- tables:    catalogs
-- holes:     role, role_text
do $msrepl$
begin
    if exists (select from pg_roles where rolname = 'msrepl_table_c268110370c2_4c4879b7063f') and not exists (
        select from pg_proc as p join pg_roles as r on r.oid = p.proowner
        where r.rolname = 'msrepl_table_c268110370c2_4c4879b7063f' and p.pronamespace = to_regnamespace('msrepl')
    ) then
        drop owned by "msrepl_table_c268110370c2_4c4879b7063f" cascade;
        drop role "msrepl_table_c268110370c2_4c4879b7063f";
    end if;
end
$msrepl$;
