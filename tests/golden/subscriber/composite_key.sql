create table "sales"."line" (
    "order" bigint not null,
    "place" smallint not null,
    "code" public.citext,
    "data" json,
    "msrepl_tran_version" uuid default gen_random_uuid() not null,
    constraint "line_pkey" PRIMARY KEY (order, place),
    constraint "line_code_key" UNIQUE (code) DEFERRABLE,
    constraint "positive" CHECK ((place > 0))
);

alter table "sales"."line" add constraint "line_order_fkey" FOREIGN KEY ("order") REFERENCES sales."order"(id) ON DELETE CASCADE;

-- Checks that a subscribed table has the row version.
-- called by: twopc.subscriber.subscription, the script of a subscription
-- tables:    catalogs
-- holes:     table, table_name
do $msrepl$
begin
    if to_regclass('"sales"."line"') is null then
        raise exception 'table % does not exist in database "%"', 'sales.line', current_database()
            using errcode = 'object_not_in_prerequisite_state', hint = 'Create it with its rows first.';
    elsif not exists (
        select from pg_attribute as a
        where a.attrelid = to_regclass('"sales"."line"') and a.attname = 'msrepl_tran_version' and not a.attisdropped
          and a.atttypid = 'uuid'::regtype and a.attnotnull
    ) then
        raise exception 'table % has no column msrepl_tran_version uuid NOT NULL (21080)', 'sales.line'
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Copy the table from the Publisher together with its row versions.';
    end if;
end
$msrepl$;

grant usage on schema "sales" to "msrepl_owner_0123456789ab";

update msrepl.msreplication_objects set structure = '' where objid = '"sales"."line"'::regclass;
select msrepl.drop_triggers('"sales"."line"'::regclass);

-- trg_mssync_ver_<table>: gives an updated row its new version.
-- called by: BEFORE UPDATE row trigger of the subscribed table
-- tables:    none but the trigger's row
-- holes:     function, guard, salt, seal, owner, comment
--
-- "The uniqueidentifier value (generated at the Subscriber)" (seed 002). It is derived from the old version and
-- the transaction: different from any other transaction's, and computed again when old and new rows are paired.
-- The transaction is identified by its start and its session, and not by its name, which is a setting: changed
-- between two rows of a statement, it would make them be paired wrongly.
--
-- In a partitioned table, the second half is derived from the first and the transaction: see renew_version.
create or replace function "msrepl"."trg_mssync_ver_sales__line"() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    
    new.msrepl_tran_version := md5(old.msrepl_tran_version::text || extract(epoch from now()) || ' ' || pg_backend_pid())::uuid;
    return new;
end
$msrepl$;
alter function "msrepl"."trg_mssync_ver_sales__line"() owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."trg_mssync_ver_sales__line"() from public;
comment on function "msrepl"."trg_mssync_ver_sales__line"() is 'Gives a new version to updated rows of sales.line';

-- trg_mssync_ins_<table>, trg_mssync_del_<table>: send the rows that a statement inserted or deleted to the
-- Publisher, in one call.
-- called by: AFTER INSERT and AFTER DELETE triggers of the subscribed table
-- tables:    transition table inserted or deleted; msrepl.branch_marker
-- holes:     function, sent, columns, rows, variables, before, ship, owner, comment
create or replace function "msrepl"."trg_mssync_ins_sales__line"() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off
set datestyle = 'ISO' set intervalstyle = 'postgres' set extra_float_digits = 1
as $msrepl$
#variable_conflict use_column
<<sync>>
declare
    news text;
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
    place integer;
begin
-- fragment: holds inserted rows while other statements are open.
-- called by: rendered into capture_rows of tables that may hold rows
-- tables:    transition table inserted; msrepl.held_row
-- holes:     place, relation, new_key, new_columns, note
    sync.place := msrepl.leave_statement(tg_relid, tg_op, true, false);
    if sync.place > 0 then
        insert into msrepl.held_row as h (xid, place, relid, new_links, new_rows)
        select pg_current_xact_id(), sync.place, '"sales"."line"'::regclass,
               array_agg(md5('"sales"."line"' || row("n"."order", "n"."place", "n"."msrepl_tran_version")::text)::uuid), array_agg(row("n"."order", "n"."place", "n"."code", "n"."data", "n"."msrepl_tran_version")::text)
        from inserted as n
        having count(*) > 0
        returning h.ctid into sync.marker;
        perform msrepl.release_held(sync.marker);
        return null;
    end if;

    select array(select row("n"."order", "n"."place", "n"."code", "n"."data", "n"."msrepl_tran_version") from inserted as n)::text into news;
    if news = '{}' then
        return null;
    end if;
    arguments := quote_literal(news);
-- fragment: sends one call to the Publisher, or queues it; the end of every capture trigger.
-- called by: rendered into capture_rows, capture_update (a function of its own would cost
--            more than these lines)
-- tables:    msrepl.branch_marker
-- holes:     call, own_branch, publisher_branch, sites, sites_text, table_name, send, send_again, after
--
-- `calls` counts what was sent in this branch. It rolls back with the caller's savepoint, and every message first
-- returns the Publisher's transaction to the savepoint that it names: the remote side follows the local one without
-- being asked for its state, and a failed remote transaction is recovered in the same way. A savepoint to which the
-- caller can no longer roll back, because this call and the previous one belong to the same subtransaction, is
-- released: savepoints nested ever deeper would make each call more expensive than the last. (The last writer of the
-- row shows this, unless the guard has written it in between, which may run in any subtransaction.)
--
-- With several Subscribers, msrepl.participants names all branches, this one's at the Publisher first. Its value is
-- stored in the marker row, and prepare_branch refuses one that the coordinator did not set.
--
-- The setting msrepl.marker only says where the marker row is. A user who changes it gets an error: the row's xid is
-- checked, and without the setting a second marker of the same xid is refused. An index would be slower, and under
-- SERIALIZABLE its pages would make unrelated transactions conflict. (The functions set enable_seqscan off: a plan
-- made while the table was small would otherwise scan it for ever.)
    sync.marker := nullif(current_setting('msrepl.marker', true), '')::tid;
    if sync.marker is not null then
        sync.call := 'call "msrepl"."sp_mssync_ins_sales__line"(''c83184ba1cac'',' || 'null,null,' || sync.arguments || ')';
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
        sync.transaction := msrepl.name_transaction('sales.line');
        sync.sites := nullif(current_setting('msrepl.participants', true), '')::text[];
        sync.call := 'call "msrepl"."sp_mssync_ins_sales__line"(''c83184ba1cac'',' || quote_literal(sync.transaction || coalesce(':' || sync.sites[1], ':pub'))
            || ',' || coalesce(quote_literal(sync.sites), 'array[''pub'', ''sub1'']') || ',' || sync.arguments || ')';
        insert into msrepl.branch_marker as m (gid, xid, participants, calls, pending)
        values (sync.transaction || ':sub1', pg_current_xact_id(), coalesce(sync.sites, array['pub', 'sub1']), sync.step,
                case when sync.step = 0 then sync.call end)
        on conflict (xid) do nothing
        -- set here, because after SET CONSTRAINTS ALL IMMEDIATE the guard moves the row before the next statement
        returning m.calls, set_config('msrepl.marker', m.ctid::text, true)::tid into sync.sent, sync.marker;
    end if;
    if sync.sent is null then
        perform msrepl.raise_uncoordinated('sales.line');
    end if;
    if sync.step = 0 then
        -- appending copies the text, so a long one is sent
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
alter function "msrepl"."trg_mssync_ins_sales__line"() owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."trg_mssync_ins_sales__line"() from public;
comment on function "msrepl"."trg_mssync_ins_sales__line"() is 'Sends to the Publisher what was inserted into sales.line';

-- trg_mssync_upd_<table>: sends the rows that an UPDATE changed to the Publisher, in one call.
-- called by: AFTER UPDATE trigger of the subscribed table
-- tables:    transition tables deleted and inserted; msrepl.branch_marker
-- holes:     function, old_columns, new_columns, salt, variables, before, ship, owner, comment
--
-- Old and new rows are paired by position. Transition tables guarantee no order, so several rows are sorted:
-- a new row's version was derived from its old one (trg_mssync_ver_<table>), and sorting both by it puts
-- them in the same order even if keys changed. There is no join: a cached plan of one becomes quadratic.
create or replace function "msrepl"."trg_mssync_upd_sales__line"() returns trigger
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
    place integer;
begin
-- fragment: holds updated rows, old and new, while other statements are open.
-- called by: rendered into capture_update of tables that may hold rows
-- tables:    transition tables deleted and inserted; msrepl.held_row
-- holes:     place, relation, derived, old_key, old_columns, old_target, new_key, new_columns, new_target, note
--
-- Rows are paired as in capture_update: a new row's version was derived from its old one.
    sync.place := msrepl.leave_statement(tg_relid, tg_op, true, false);
    if sync.place > 0 then
        insert into msrepl.held_row as h
            (xid, place, relid, old_links, new_links, old_keys, old_rows, new_rows, moved)
        select pg_current_xact_id(), sync.place, '"sales"."line"'::regclass,
               array_agg(md5('"sales"."line"' || paired.old_key)::uuid), array_agg(md5('"sales"."line"' || paired.new_key)::uuid),
               array_agg(paired.old_key), array_agg(paired.old_row), array_agg(paired.new_row),
               array_agg(paired.old_target <> paired.new_target)
        from rows from (
            unnest((select array_agg(row("o"."order", "o"."place", "o"."msrepl_tran_version")::text order by md5(o.msrepl_tran_version::text || extract(epoch from now()) || ' ' || pg_backend_pid())::uuid) from deleted as o)),
            unnest((select array_agg(row("o"."order", "o"."place", "o"."code", "o"."data", "o"."msrepl_tran_version")::text order by md5(o.msrepl_tran_version::text || extract(epoch from now()) || ' ' || pg_backend_pid())::uuid) from deleted as o)),
            unnest((select array_agg(row("o"."order", "o"."place")::text order by md5(o.msrepl_tran_version::text || extract(epoch from now()) || ' ' || pg_backend_pid())::uuid) from deleted as o)),
            unnest((select array_agg(row("n"."order", "n"."place", "n"."msrepl_tran_version")::text order by n.msrepl_tran_version) from inserted as n)),
            unnest((select array_agg(row("n"."order", "n"."place", "n"."code", "n"."data", "n"."msrepl_tran_version")::text order by n.msrepl_tran_version) from inserted as n)),
            unnest((select array_agg(row("n"."order", "n"."place")::text order by n.msrepl_tran_version) from inserted as n))
        ) as paired(old_key, old_row, old_target, new_key, new_row, new_target)
        having count(*) > 0
        returning h.ctid into sync.marker;
        perform msrepl.release_held(sync.marker);
        return null;
    end if;

    select array(select row("o"."order", "o"."place", "o"."msrepl_tran_version") from deleted as o limit 1)::text,
           array(select row("n"."order", "n"."place", "n"."code", "n"."data", "n"."msrepl_tran_version") from inserted as n limit 1)::text,
           exists (select from deleted offset 1)
    into olds, news, several;
    if olds = '{}' then
        return null;
    elsif several then
        salt := extract(epoch from now()) || ' ' || pg_backend_pid();
        select array(select row("o"."order", "o"."place", "o"."msrepl_tran_version") from deleted as o
                     order by md5(o.msrepl_tran_version::text || sync.salt)::uuid)::text,
               array(select row("n"."order", "n"."place", "n"."code", "n"."data", "n"."msrepl_tran_version") from inserted as n order by n.msrepl_tran_version)::text
        into olds, news;
    end if;
    arguments := quote_literal(olds) || ',' || quote_literal(news);
-- fragment: sends one call to the Publisher, or queues it; the end of every capture trigger.
-- called by: rendered into capture_rows, capture_update (a function of its own would cost
--            more than these lines)
-- tables:    msrepl.branch_marker
-- holes:     call, own_branch, publisher_branch, sites, sites_text, table_name, send, send_again, after
--
-- `calls` counts what was sent in this branch. It rolls back with the caller's savepoint, and every message first
-- returns the Publisher's transaction to the savepoint that it names: the remote side follows the local one without
-- being asked for its state, and a failed remote transaction is recovered in the same way. A savepoint to which the
-- caller can no longer roll back, because this call and the previous one belong to the same subtransaction, is
-- released: savepoints nested ever deeper would make each call more expensive than the last. (The last writer of the
-- row shows this, unless the guard has written it in between, which may run in any subtransaction.)
--
-- With several Subscribers, msrepl.participants names all branches, this one's at the Publisher first. Its value is
-- stored in the marker row, and prepare_branch refuses one that the coordinator did not set.
--
-- The setting msrepl.marker only says where the marker row is. A user who changes it gets an error: the row's xid is
-- checked, and without the setting a second marker of the same xid is refused. An index would be slower, and under
-- SERIALIZABLE its pages would make unrelated transactions conflict. (The functions set enable_seqscan off: a plan
-- made while the table was small would otherwise scan it for ever.)
    sync.marker := nullif(current_setting('msrepl.marker', true), '')::tid;
    if sync.marker is not null then
        sync.call := 'call "msrepl"."sp_mssync_upd_sales__line"(''c83184ba1cac'',' || 'null,null,' || sync.arguments || ')';
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
        sync.transaction := msrepl.name_transaction('sales.line');
        sync.sites := nullif(current_setting('msrepl.participants', true), '')::text[];
        sync.call := 'call "msrepl"."sp_mssync_upd_sales__line"(''c83184ba1cac'',' || quote_literal(sync.transaction || coalesce(':' || sync.sites[1], ':pub'))
            || ',' || coalesce(quote_literal(sync.sites), 'array[''pub'', ''sub1'']') || ',' || sync.arguments || ')';
        insert into msrepl.branch_marker as m (gid, xid, participants, calls, pending)
        values (sync.transaction || ':sub1', pg_current_xact_id(), coalesce(sync.sites, array['pub', 'sub1']), sync.step,
                case when sync.step = 0 then sync.call end)
        on conflict (xid) do nothing
        -- set here, because after SET CONSTRAINTS ALL IMMEDIATE the guard moves the row before the next statement
        returning m.calls, set_config('msrepl.marker', m.ctid::text, true)::tid into sync.sent, sync.marker;
    end if;
    if sync.sent is null then
        perform msrepl.raise_uncoordinated('sales.line');
    end if;
    if sync.step = 0 then
        -- appending copies the text, so a long one is sent
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
alter function "msrepl"."trg_mssync_upd_sales__line"() owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."trg_mssync_upd_sales__line"() from public;
comment on function "msrepl"."trg_mssync_upd_sales__line"() is 'Sends to the Publisher what was updated in sales.line';

-- trg_mssync_ins_<table>, trg_mssync_del_<table>: send the rows that a statement inserted or deleted to the
-- Publisher, in one call.
-- called by: AFTER INSERT and AFTER DELETE triggers of the subscribed table
-- tables:    transition table inserted or deleted; msrepl.branch_marker
-- holes:     function, sent, columns, rows, variables, before, ship, owner, comment
create or replace function "msrepl"."trg_mssync_del_sales__line"() returns trigger
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
    place integer;
begin
-- fragment: holds deleted rows while other statements are open.
-- called by: rendered into capture_rows of tables that may hold rows
-- tables:    transition table deleted; msrepl.held_row
-- holes:     place, relation, old_key, old_columns, note
    sync.place := msrepl.leave_statement(tg_relid, tg_op, true, false);
    if sync.place > 0 then
        insert into msrepl.held_row as h (xid, place, relid, old_links, old_rows)
        select pg_current_xact_id(), sync.place, '"sales"."line"'::regclass,
               array_agg(md5('"sales"."line"' || row("o"."order", "o"."place", "o"."msrepl_tran_version")::text)::uuid), array_agg(row("o"."order", "o"."place", "o"."code", "o"."data", "o"."msrepl_tran_version")::text)
        from deleted as o
        having count(*) > 0
        returning h.ctid into sync.marker;
        perform msrepl.release_held(sync.marker);
        return null;
    end if;

    select array(select row("o"."order", "o"."place", "o"."code", "o"."data", "o"."msrepl_tran_version") from deleted as o)::text into olds;
    if olds = '{}' then
        return null;
    end if;
    arguments := quote_literal(olds);
-- fragment: sends one call to the Publisher, or queues it; the end of every capture trigger.
-- called by: rendered into capture_rows, capture_update (a function of its own would cost
--            more than these lines)
-- tables:    msrepl.branch_marker
-- holes:     call, own_branch, publisher_branch, sites, sites_text, table_name, send, send_again, after
--
-- `calls` counts what was sent in this branch. It rolls back with the caller's savepoint, and every message first
-- returns the Publisher's transaction to the savepoint that it names: the remote side follows the local one without
-- being asked for its state, and a failed remote transaction is recovered in the same way. A savepoint to which the
-- caller can no longer roll back, because this call and the previous one belong to the same subtransaction, is
-- released: savepoints nested ever deeper would make each call more expensive than the last. (The last writer of the
-- row shows this, unless the guard has written it in between, which may run in any subtransaction.)
--
-- With several Subscribers, msrepl.participants names all branches, this one's at the Publisher first. Its value is
-- stored in the marker row, and prepare_branch refuses one that the coordinator did not set.
--
-- The setting msrepl.marker only says where the marker row is. A user who changes it gets an error: the row's xid is
-- checked, and without the setting a second marker of the same xid is refused. An index would be slower, and under
-- SERIALIZABLE its pages would make unrelated transactions conflict. (The functions set enable_seqscan off: a plan
-- made while the table was small would otherwise scan it for ever.)
    sync.marker := nullif(current_setting('msrepl.marker', true), '')::tid;
    if sync.marker is not null then
        sync.call := 'call "msrepl"."sp_mssync_del_sales__line"(''c83184ba1cac'',' || 'null,null,' || sync.arguments || ')';
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
        sync.transaction := msrepl.name_transaction('sales.line');
        sync.sites := nullif(current_setting('msrepl.participants', true), '')::text[];
        sync.call := 'call "msrepl"."sp_mssync_del_sales__line"(''c83184ba1cac'',' || quote_literal(sync.transaction || coalesce(':' || sync.sites[1], ':pub'))
            || ',' || coalesce(quote_literal(sync.sites), 'array[''pub'', ''sub1'']') || ',' || sync.arguments || ')';
        insert into msrepl.branch_marker as m (gid, xid, participants, calls, pending)
        values (sync.transaction || ':sub1', pg_current_xact_id(), coalesce(sync.sites, array['pub', 'sub1']), sync.step,
                case when sync.step = 0 then sync.call end)
        on conflict (xid) do nothing
        -- set here, because after SET CONSTRAINTS ALL IMMEDIATE the guard moves the row before the next statement
        returning m.calls, set_config('msrepl.marker', m.ctid::text, true)::tid into sync.sent, sync.marker;
    end if;
    if sync.sent is null then
        perform msrepl.raise_uncoordinated('sales.line');
    end if;
    if sync.step = 0 then
        -- appending copies the text, so a long one is sent
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
alter function "msrepl"."trg_mssync_del_sales__line"() owner to "msrepl_owner_0123456789ab";
revoke all on function "msrepl"."trg_mssync_del_sales__line"() from public;
comment on function "msrepl"."trg_mssync_del_sales__line"() is 'Sends to the Publisher what was deleted from sales.line';

-- ~trg_mssync_ver_<table>, ~trg_mssync_new_<table>, !trg_mssync_gen_<table>: change a row before it is stored;
-- !trg_mssync_fetch_<table>: prepares that.
-- called by: every such change of a row
-- tables:    the subscribed table
-- holes:     trigger, event, table, function
create or replace trigger "~trg_mssync_ver_sales__line"
    before update on "sales"."line"
    for each row execute function "msrepl"."trg_mssync_ver_sales__line"();

-- ~trg_mssync_ver_<table>, ~trg_mssync_new_<table>, !trg_mssync_gen_<table>: change a row before it is stored;
-- !trg_mssync_fetch_<table>: prepares that.
-- called by: every such change of a row
-- tables:    the subscribed table
-- holes:     trigger, event, table, function
create or replace trigger "~trg_mssync_new_sales__line"
    before insert on "sales"."line"
    for each row execute function "msrepl"."renew_version"();

-- !trg_mssync_open_<table>, !trg_mssync_end_<operation>_<table>: count the open statements.
-- called by: every statement on a subscribed table that may hold rows
-- tables:    the subscribed table
-- holes:     trigger, when, table, function
create or replace trigger "!trg_mssync_open_sales__line"
    before insert or update or delete on "sales"."line"
    for each statement execute function "msrepl"."enter_statement"();

-- !trg_mssync_<operation>_<table>: captures one kind of statement on one subscribed table.
-- called by: every such statement, or its first row; fires first, since triggers fire in order of name
-- tables:    the subscribed table
-- holes:     trigger, event, table, referencing, each, function
create or replace trigger "!trg_mssync_ins_sales__line"
    after insert on "sales"."line"
    referencing new table as inserted
    for each statement execute function "msrepl"."trg_mssync_ins_sales__line"();

-- !trg_mssync_<operation>_<table>: captures one kind of statement on one subscribed table.
-- called by: every such statement, or its first row; fires first, since triggers fire in order of name
-- tables:    the subscribed table
-- holes:     trigger, event, table, referencing, each, function
create or replace trigger "!trg_mssync_upd_sales__line"
    after update on "sales"."line"
    referencing old table as deleted new table as inserted
    for each statement execute function "msrepl"."trg_mssync_upd_sales__line"();

-- !trg_mssync_<operation>_<table>: captures one kind of statement on one subscribed table.
-- called by: every such statement, or its first row; fires first, since triggers fire in order of name
-- tables:    the subscribed table
-- holes:     trigger, event, table, referencing, each, function
create or replace trigger "!trg_mssync_del_sales__line"
    after delete on "sales"."line"
    referencing old table as deleted
    for each statement execute function "msrepl"."trg_mssync_del_sales__line"();

-- trg_mssync_truncate_<table>: refuses TRUNCATE of one replicated table.
-- called by: every TRUNCATE of the table
-- tables:    none
-- holes:     trigger, table
create or replace trigger "trg_mssync_truncate_sales__line"
    before truncate on "sales"."line"
    for each statement execute function msrepl.refuse_truncate();

-- msrepl.prepare_branch: sends what is queued and prepares the Publisher's branch.
-- called by: prepare_publisher, and refuse_unprepared for any client
-- tables:    msrepl.branch_marker
-- holes:     owner, link, held, own_branch
--
-- Returns how many calls were sent; 0 if nothing was captured in this transaction, which then has no branch
-- at the Publisher.
-- as_whole: for the transaction as a whole. Also returns 0, and asks nothing, if the session could still roll
-- back to a savepoint: the Publisher would then have prepared what is rolled back here.
-- A vote is a command tag and nothing else: PREPARE TRANSACTION of a failed transaction succeeds with the tag
-- ROLLBACK, and NULL must not pass for yes. After any error the branch may still be prepared there
-- (cancelled, or the link lost with the answer): the caller must roll it back at the Publisher too.
drop procedure if exists msrepl.prepare_branch(text, integer, text[]), msrepl.prepare_branch(text, integer, text[], boolean);
create or replace function msrepl.prepare_branch(gid text, participants text[], as_whole boolean) returns integer
language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $msrepl$
#variable_conflict use_column
<<prepare>>
declare
    marker tid := nullif(current_setting('msrepl.marker', true), '')::tid;
    branch constant text := $1 || ':' || $2[1];
    marked text;
    sites text[];
    sent integer;
    queued text;
    within boolean;
    command text;
    tag text;
    detail text;
    context text;
    hint text;
begin
    -- what is prepared there must not be lost here, and neither must a coordinator's COMMIT PREPARED
    if current_setting('synchronous_commit') not in ('on', 'remote_apply') then
        perform set_config('synchronous_commit', 'on', $3);
    end if;
    perform msrepl.send_held();
    marker := nullif(current_setting('msrepl.marker', true), '')::tid;
    -- the row records it from here on, and is rolled back with a savepoint: later changes are refused
    update msrepl.branch_marker as m set prepared = true
    where m.ctid = marker and m.xid = pg_current_xact_id_if_assigned() and not m.prepared
    returning m.gid, m.participants, m.calls, m.pending, set_config('msrepl.marker', m.ctid::text, true)::tid,
              m.xmin <> m.xid::xid
    into marked, sites, sent, queued, marker, within;
    if marked is null then
        return 0;
    elsif $3 and within then
        update msrepl.branch_marker as m set prepared = false where m.ctid = marker
        returning set_config('msrepl.marker', m.ctid::text, true)::tid into marker;
        return 0;
    end if;
    if marked <> $1 || ':sub1' then
        raise exception 'this transaction captured changes as %, not as %', marked, $1 || ':sub1'
            using errcode = 'invalid_transaction_state',
                  hint = 'msrepl.gid was changed within the transaction: roll back and try again.';
    end if;
    if sites is distinct from $2 then
        raise exception 'this transaction captured changes for the branches %, not for %', sites, $2
            using errcode = 'invalid_transaction_state',
                  hint = 'msrepl.participants was changed within the transaction: roll back and try again.';
    end if;
    command := case when sent = 0
            then 'rollback;begin isolation level ' || current_setting('transaction_isolation')
            else 'rollback to s' || sent end
        || coalesce(';' || queued, '')
        || ';prepare transaction ' || quote_literal(branch);
    begin
        tag := msrepl_link.dblink_exec('msrepl', command);
    exception
        when query_canceled then
            perform msrepl.drain_link();
            raise;
        when others then
            get stacked diagnostics detail = pg_exception_detail, context = pg_exception_context, hint = pg_exception_hint;
            if msrepl.link_is_lost(sqlstate) then
                tag := msrepl.prepare_again(prepare.branch, sent = 0, sqlerrm, command);
            else
                perform msrepl.explain_failure(sqlstate, sqlerrm, detail, context, command, hint);
                raise;
            end if;
    end;
    if tag is distinct from 'PREPARE TRANSACTION' then
        raise exception 'the Publisher did not prepare: its answer was %', coalesce(tag, 'nothing')
            using errcode = 'transaction_rollback';
    end if;
    return greatest(sent, 1);
end
$msrepl$;
alter function msrepl.prepare_branch(text, text[], boolean) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.prepare_branch(text, text[], boolean) from public;
comment on function msrepl.prepare_branch(text, text[], boolean) is 'Sends what waits and prepares the branch at the Publisher';

-- The row of a subscribed table: what is needed to make its calls, and to remove the subscription.
-- called by: twopc.subscriber.subscription, the script of a subscription
-- tables:    msrepl.msreplication_objects
-- holes:     table, schema, article, created_table, added_version, added_keys, routines, parents, calls,
--            write_back
insert into msrepl.msreplication_objects as o
    (objid, dest_schema, article, created_table, added_version, added_keys, structure, routines, fingerprints,
     parents, sync_calls, write_back)
select '"sales"."line"'::regclass, 'sales', 'line', true, false, array[]::text[],
       msrepl.table_structure('"sales"."line"'::regclass),
       array(select p.oid from pg_proc p
             where p.pronamespace = 'msrepl'::regnamespace and p.proname::text = any (array['trg_mssync_ins_sales__line', 'trg_mssync_upd_sales__line', 'trg_mssync_del_sales__line']::text[])),
       msrepl.fingerprints('"sales"."line"'::regclass),
       array(select to_regclass(t)::oid from unnest(array['"sales"."order"']::text[]) as t),  E'{"ins": "call \\"msrepl\\".\\"sp_mssync_ins_sales__line\\"(''c83184ba1cac'',", "upd": "call \\"msrepl\\".\\"sp_mssync_upd_sales__line\\"(''c83184ba1cac'',", "del": "call \\"msrepl\\".\\"sp_mssync_del_sales__line\\"(''c83184ba1cac'',"}'::jsonb, NULL
on conflict (objid) do update
set dest_schema = excluded.dest_schema, article = excluded.article, structure = excluded.structure,
    routines = excluded.routines, fingerprints = excluded.fingerprints, parents = excluded.parents,
    sync_calls = excluded.sync_calls, write_back = excluded.write_back, stale = null;
select msrepl.deactivate(null);

drop function if exists "msrepl"."trg_mssync_ver_sales__line";

drop function if exists "msrepl"."trg_mssync_ins_sales__line";

drop function if exists "msrepl"."trg_mssync_upd_sales__line";

drop function if exists "msrepl"."trg_mssync_del_sales__line";

drop function if exists "msrepl"."trg_mssync_fetch_sales__line";

drop function if exists "msrepl"."trg_mssync_gen_sales__line";

drop function if exists "msrepl"."trg_mssync_back_sales__line";

drop function if exists "msrepl"."trg_mssync_store_sales__line";

drop type if exists "msrepl"."mssync_back_row_sales__line";

-- Drops the role that writes a table, once it owns none of our functions any more.
-- called by: twopc.publisher.publication, twopc.subscriber.subscription, twopc.subscriber.propagation
-- tables:    catalogs
-- holes:     role, role_text
--
-- If another database, which is a copy of this one, has objects of the role, it stays; nobody can log in with it.
do $msrepl$
begin
    if exists (select from pg_roles where rolname = 'msrepl_table_c268110370c2_2f6d64898938') and not exists (
        select from pg_proc as p join pg_roles as r on r.oid = p.proowner
        where r.rolname = 'msrepl_table_c268110370c2_2f6d64898938' and p.pronamespace = to_regnamespace('msrepl')
    ) then
        drop owned by "msrepl_table_c268110370c2_2f6d64898938" cascade;
        begin
            drop role "msrepl_table_c268110370c2_2f6d64898938";
        exception
            when dependent_objects_still_exist then
                null;
        end;
    end if;
end
$msrepl$;
