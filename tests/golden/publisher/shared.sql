-- msrepl.sysarticles, msrepl.syssubscriptions: what this database publishes, and to whom.
-- called by: publisher.publication, publisher.subscriptions, ddl_guard
-- tables:    themselves
-- holes:     owner
--
-- columns are the numbers of those chosen, which a rename leaves alone; NULL means all. structure is empty
-- while the procedures are being made. propagation says how changes travel, destination_procedures how the
-- default procedures at Subscribers are called. replica_identities holds what was there before publishing, for
-- the table and its partitions where that was changed. parts of a subscription: the numbers of
-- sysfilteredarticles that it has in place of their base.
set local role "msrepl_owner_0123456789ab";
create table if not exists msrepl.sysarticles (
    article_id integer generated always as identity primary key,
    objid oid not null unique,
    source_schema text not null,
    source_object text not null,
    columns int2[],
    filter_clause text,
    replica_identities jsonb not null default '{}',
    altered_keys text[] not null default array[]::text[],
    added_version boolean not null,
    propagation jsonb not null,
    destination_procedures jsonb not null default '{}',
    procedures oid[] not null default array[]::oid[],
    structure text not null,
    stale text,
    unique (source_schema, source_object)
);
comment on table msrepl.sysarticles is 'Articles of this publication; stale says why the procedures no longer fit the table';
create table if not exists msrepl.syssubscriptions (
    subscriber text primary key,
    link_role text not null unique,
    status text not null default 'active' check (status in ('active', 'inactive')),
    parts integer[] not null default array[]::integer[],
    created_at timestamptz not null default clock_timestamp()
);
comment on table msrepl.syssubscriptions is 'Subscriptions with immediate updating, and the role under which each one''s link works';
revoke all on msrepl.sysarticles, msrepl.syssubscriptions from public;
reset role;

-- msrepl.sysfilteredarticles: articles that hold part of another's rows, for some Subscribers.
-- called by: publisher.distributing, publisher.publication
-- tables:    itself
-- holes:     owner
--
-- A row belongs if it fulfils the base's filter and this one. The number is of the same sequence as those of
-- sysarticles.
set local role "msrepl_owner_0123456789ab";
create table if not exists msrepl.sysfilteredarticles (
    article_id integer primary key,
    base integer not null references msrepl.sysarticles on delete cascade,
    filter_clause text not null,
    unique (base, filter_clause)
);
revoke all on msrepl.sysfilteredarticles from public;
comment on table msrepl.sysfilteredarticles is 'Articles that hold part of another''s rows, for some Subscribers';
reset role;

-- msrepl.log_message: what is posted into the log for every Subscriber: tracer tokens, validation requests.
-- called by: whoever posts; the log reader reads the inserts from the log
-- tables:    itself
-- holes:     owner
--
-- kind  tracer_token or validation
-- body  what the command will hold
set local role "msrepl_owner_0123456789ab";
create table if not exists msrepl.log_message (
    id bigint generated always as identity primary key,
    kind text not null check (kind in ('tracer_token', 'validation')),
    body jsonb not null,
    created_at timestamptz not null default clock_timestamp()
);
revoke all on msrepl.log_message from public;
comment on table msrepl.log_message is 'What is posted into the log for every Subscriber';
reset role;

-- msrepl.filter_rows: which images of rows belong to a filtered article.
-- called by: publisher.filters, for the log reader
-- tables:    none
-- holes:     owner
--
-- The one door of the log reader's role to the filters, which run with the rights of their owner.
create or replace function msrepl.filter_rows(article integer, images text[]) returns boolean[]
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    belong boolean[];
begin
    execute format('select msrepl.%I($1)', 'row_filter_' || article) into belong using images;
    return belong;
end
$msrepl$;
alter function msrepl.filter_rows(integer, text[]) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.filter_rows(integer, text[]) from public;
comment on function msrepl.filter_rows(integer, text[]) is 'Which images of rows belong to a filtered article';

-- msrepl.branch_marker: one row per branch of a global transaction that wrote in this database.
-- called by: sync procedures (Publisher), capture triggers and prepare_publisher (Subscriber),
--            fence_branch (recovery)
-- tables:    itself
-- holes:     owner
--
-- gid          of the prepared transaction; unique, so that an aborter's row fences a late PREPARE
-- xid          of the branch; unique, so that a branch whose settings were reset cannot begin again
-- participants the other sites, so that they can be asked if the decision log is lost
-- originator   at the Publisher: the subscription that sent the change (loopback detection)
-- calls        at the Subscriber: remote calls sent; rolls back with the savepoint of the caller
-- prior        at the Subscriber: which subtransaction wrote the row before; the same one as now: nothing lies
--              between to which the caller could roll back
-- pending      at the Subscriber: remote calls not sent yet (lazy shipping, referential actions); not
--              compressed, because each statement that waits writes all of it again
-- turn         at the Subscriber, any client: how often the end of its transaction was put off
-- fence        true: not a branch but the row of the one who made sure that there will be none
--
-- The owner creates it: ALTER TABLE ... OWNER would lock a table that is in use, whenever a topology is
-- opened again.
set local role "msrepl_owner_0123456789ab";
create table if not exists msrepl.branch_marker (
    gid text primary key,
    xid xid8 not null unique,
    participants text[] not null,
    originator text,
    calls integer not null default 0,
    prior xid,
    pending text storage external,
    turn smallint not null default 0,
    fence boolean not null default false,
    created_at timestamptz not null default clock_timestamp()
);
revoke all on msrepl.branch_marker from public;
comment on table msrepl.branch_marker is 'One row per branch of a global transaction that wrote in this database';
reset role;

-- msrepl.raise_conflict: the one place where a refusal gets its message, SQLSTATE and numbers.
-- called by: sync procedures (Publisher), capture triggers (Subscriber)
-- tables:    none
-- holes:     owner
--
-- DETAIL is one JSON object, because dblink carries DETAIL through unchanged and loses every other
-- field. The original raises 20515 (rows do not match) and then 20512 (rolling back); the second is in
-- HINT.
create or replace function msrepl.raise_conflict(
    kind text, state text, number integer, article text, key jsonb,
    subscriber_version text, publisher_version text, publisher_row jsonb, message text,
    constraints text[] default null
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if octet_length(publisher_row::text) > 65536 then
        message := format('%s (the Publisher''s row has %s bytes and is not shown)',
                          message, octet_length(publisher_row::text));
        publisher_row := null;
    end if;
    raise exception using
        errcode = state,
        message = message,
        detail = json_build_object(
            'kind', kind, 'number', number, 'article', article, 'key', key,
            'subscriber_version', subscriber_version, 'publisher_version', publisher_version,
            'publisher_row', publisher_row, 'constraints', constraints)::text,
        hint = '20512: the transaction is rolled back at both sites.' || case
            when state in ('40001', '23505')
                then ' Trying again helps only after the Subscriber has synchronised.'
            else '' end;
end
$msrepl$;
alter function msrepl.raise_conflict(text, text, integer, text, jsonb, text, text, jsonb, text, text[]) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.raise_conflict(text, text, integer, text, jsonb, text, text, jsonb, text, text[]) from public;
comment on function msrepl.raise_conflict(text, text, integer, text, jsonb, text, text, jsonb, text, text[])
    is 'Refuses a change: SQLSTATE, message, and the facts as JSON in DETAIL';

-- msrepl.raise_stale: what a procedure or trigger does once its table has another structure.
-- called by: bodies put in place by ddl_guard
-- tables:    none
-- holes:     owner
create or replace function msrepl.raise_stale(table_schema text, table_name text, place text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    article constant text := case when $1 = 'public' then $2 else $1 || '.' || $2 end;
begin
    raise exception 'table % was altered at the %: its replication objects no longer fit', article, $3
        using errcode = 'object_not_in_prerequisite_state',
              detail = json_build_object('kind', 'stale_article', 'number', 20500,
                                         'article', article, 'place', $3)::text,
              hint = 'Run: twopc regenerate ' || article;
end
$msrepl$;
alter function msrepl.raise_stale(text, text, text) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.raise_stale(text, text, text) from public;
comment on function msrepl.raise_stale(text, text, text) is 'Says that generated objects no longer fit their table';

-- msrepl.table_structure: what procedures and triggers of a table were generated from, as a digest.
-- called by: publish/subscribe, and the event triggers that find stale objects (ddl_guard)
-- tables:    catalogs
-- holes:     owner
--
-- Names stand in it as they stand in generated text: a rename makes that stale. What we change ourselves is
-- left out: our triggers, and whether keys are deferrable. NULL for a table that is not there any more.
create or replace function msrepl.table_structure(relid oid) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select md5(string_agg(part, ' ' order by part))
    from (
        select format('table %I.%I %s %s', n.nspname, c.relname, c.relrowsecurity, c.relpersistence)
        from pg_class c
        join pg_namespace n on n.oid = c.relnamespace
        where c.oid = $1
      union all
        select format('column %s %I %s %s %s %s', a.attnum, a.attname, format_type(a.atttypid, a.atttypmod),
                      a.attnotnull, a.attidentity, a.attgenerated)
        from pg_attribute a
        where a.attrelid = $1 and a.attnum > 0 and not a.attisdropped
      union all
        select format('default %s %s', d.adnum, pg_get_expr(d.adbin, d.adrelid))
        from pg_attrdef d
        where d.adrelid = $1
      union all
        select format('identity %s %s', d.refobjsubid, d.objid::regclass)
        from pg_depend d
        where d.refclassid = 'pg_class'::regclass and d.refobjid = $1 and d.classid = 'pg_class'::regclass
          and d.deptype = 'i' and d.refobjsubid > 0
      union all
        select format('trigger %I %s %s %s', t.tgname, t.tgtype, t.tgenabled, nullif(t.tgrelid, $1))
        from pg_trigger t
        join pg_proc p on p.oid = t.tgfoid
        where not t.tgisinternal and p.pronamespace <> 'msrepl'::regnamespace
          and (t.tgrelid = $1
               or t.tgparentid = 0 and t.tgrelid in (select b.relid from pg_partition_tree($1) as b))
      union all
        select format('constraint %I %s %s', c.conname, c.conrelid::regclass,
                      regexp_replace(pg_get_constraintdef(c.oid), ' DEFERRABLE( INITIALLY DEFERRED)?', ''))
        from pg_constraint c
        where $1 in (c.conrelid, c.confrelid) and c.contype in ('p', 'u', 'f', 'x') and c.conparentid = 0
      union all
        select format('unique %s', pg_get_indexdef(x.indexrelid))
        from pg_index x
        where x.indrelid = $1 and x.indisunique and x.indisvalid
      union all
        select format('rule %I', r.rulename)
        from pg_rewrite r
        where r.ev_class = $1
      union all
        select format('inherits %s %s', i.inhparent::regclass, i.inhrelid::regclass)
        from pg_inherits i
        where $1 in (i.inhparent, i.inhrelid)
      union all
        select format('partition %s %s', p.parentrelid, p.relid)
        from pg_partition_tree($1) p
        where p.level > 1
    ) as parts(part)
$msrepl$;
alter function msrepl.table_structure(oid) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.table_structure(oid) from public;
comment on function msrepl.table_structure(oid) is 'Digest of a table''s structure: a change makes generated objects stale';

-- msrepl.touched_tables: which tables the DDL in hand may have changed; NULL means any.
-- called by: ddl_guard, within an event trigger
-- tables:    catalogs
-- holes:     owner
--
-- A digest of every table after every command would make a database of many articles slow to alter.
create or replace function msrepl.touched_tables(event text) returns oid[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    tables oid[];
begin
    if event = 'sql_drop' then
        if exists (
            select from pg_event_trigger_dropped_objects() as d
            where d.object_type in ('table', 'index', 'sequence') and not d.is_temporary
        ) then
            return null;
        end if;
        -- by the catalogs, since to_regclass asks for rights on the schema
        select array_agg(c.oid) into tables
        from pg_event_trigger_dropped_objects() as d
        join pg_namespace as n on n.nspname = d.address_names[1]
        join pg_class as c on c.relnamespace = n.oid and c.relname = d.address_names[2]
        where d.object_type in ('table column', 'table constraint', 'default value', 'trigger', 'rule');
    else
        if exists (
            select from pg_event_trigger_ddl_commands() as d
            where d.classid not in ('pg_class'::regclass, 'pg_constraint'::regclass, 'pg_trigger'::regclass,
                                    'pg_rewrite'::regclass)
               or d.object_type = 'sequence'
        ) then
            return null;
        end if;
        select array_agg(coalesce(x.indrelid, k.conrelid, t.tgrelid, r.ev_class, d.objid))
        into tables
        from pg_event_trigger_ddl_commands() as d
        left join pg_index x on d.classid = 'pg_class'::regclass and x.indexrelid = d.objid
        left join pg_constraint k on d.classid = 'pg_constraint'::regclass and k.oid = d.objid
        left join pg_trigger t on d.classid = 'pg_trigger'::regclass and t.oid = d.objid
        left join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid;
    end if;
    -- neighbours stand by name in each other's constraints and partitions
    return array(
        select unnest(tables)
      union
        select i.inhparent from pg_inherits i where i.inhrelid = any (tables)
      union
        select p.relid from unnest(tables) as t, pg_partition_ancestors(t) as p
      union
        select i.inhrelid from pg_inherits i where i.inhparent = any (tables)
      union
        select c.confrelid from pg_constraint c where c.conrelid = any (tables) and c.contype = 'f'
      union
        select c.conrelid from pg_constraint c where c.confrelid = any (tables) and c.contype = 'f');
end
$msrepl$;
alter function msrepl.touched_tables(text) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.touched_tables(text) from public;
comment on function msrepl.touched_tables(text) is 'Which tables the DDL in hand may have changed';

-- msrepl.refuse_truncate: TRUNCATE names no rows, so it can be neither compared nor replicated.
-- called by: BEFORE TRUNCATE trigger of every published or subscribed table
-- tables:    none
-- holes:     owner
create or replace function msrepl.refuse_truncate() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    raise exception 'table %.% is replicated: TRUNCATE is refused', tg_table_schema, tg_table_name
        using errcode = 'feature_not_supported',
              hint = 'Use DELETE, or drop the article first.';
end
$msrepl$;
alter function msrepl.refuse_truncate() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.refuse_truncate() from public;
comment on function msrepl.refuse_truncate() is 'Refuses TRUNCATE of a replicated table';

-- msrepl.await_branches: waits until branches of the same Subscriber that are prepared here have ended.
-- called by: sync procedures and defer_keys, when something is missing
-- tables:    msrepl.branch_marker; pg_prepared_xacts, pg_locks
-- holes:     owner
--
-- Such a branch may be committed at the Subscriber already, and the next transaction there builds on it: on
-- rows that are invisible here until the branch is finished, and that no lock can wait for. Each branch has
-- inserted its marker, so inserting the same one waits for it; that insert never stays. Callers try once more
-- even if there was nothing to wait for: it may have ended since their last look.
create or replace function msrepl.await_branches(tables oid[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    branch text;
begin
    for branch in
        select p.gid
        from pg_prepared_xacts as p
        where p.owner = session_user and p.database = current_database()
          and exists (
              -- a prepared transaction keeps the virtual id of its session, or gets another at a restart
              select from pg_locks as x
              join pg_locks as l on l.virtualtransaction = x.virtualtransaction and l.pid is null
              where x.locktype = 'transactionid' and x.transactionid = p.transaction and x.pid is null
                and l.locktype = 'relation' and l.relation = any (tables) and l.mode = 'RowExclusiveLock')
        order by p.prepared
    loop
        begin
            insert into msrepl.branch_marker (gid, xid, participants)
            values (branch, pg_current_xact_id(), array[]::text[]);
            raise unique_violation;
        exception
            when unique_violation then
                null;
            when lock_not_available then
                perform msrepl.raise_conflict(
                    'lock_timeout', '55P03', 0, null, null, null, null, null,
                    format('what this change builds on may be in branch %s, which was not finished within %s',
                           branch, current_setting('lock_timeout')));
        end;
    end loop;
end
$msrepl$;
alter function msrepl.await_branches(oid[]) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.await_branches(oid[]) from public;
comment on function msrepl.await_branches(oid[]) is 'Waits for prepared branches of the same Subscriber';

-- msrepl.defer_keys: defers the foreign keys between published tables, or checks them.
-- called by: a Subscriber over its link, around the calls of one statement
-- tables:    msrepl.sysarticles; catalogs
-- holes:     owner
--
-- A statement at a Subscriber changes parents and children at once. Its calls come one after the other, so
-- the keys are checked after the last. Keys that their owner has made initially deferred stay so. A row that
-- is missing may be that of a branch which is finished at the Subscriber and not yet here.
create or replace procedure msrepl.defer_keys(defer boolean)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    keys text;
begin
    select string_agg(distinct format('%I.%I', n.nspname, c.conname), ', ') into keys
    from msrepl.sysarticles as a
    join pg_constraint as c on c.conrelid = a.objid and c.contype = 'f' and c.condeferrable and not c.condeferred
    join pg_namespace as n on n.oid = c.connamespace
    where c.confrelid in (select p.objid from msrepl.sysarticles as p);
    if keys is not null then
        begin
            execute 'set constraints ' || keys || case when defer then ' deferred' else ' immediate' end;
        exception when foreign_key_violation then
            perform msrepl.await_branches(array(select a.objid from msrepl.sysarticles as a));
            execute 'set constraints ' || keys || ' immediate';
        end;
    end if;
end
$msrepl$;
alter procedure msrepl.defer_keys(boolean) owner to "msrepl_owner_0123456789ab";
revoke all on procedure msrepl.defer_keys(boolean) from public;
comment on procedure msrepl.defer_keys(boolean) is 'Defers the foreign keys between published tables, or checks them';

-- msrepl.touched_row: rows of the table being synchronised that a trigger has changed again.
-- called by: witness, check_touched
-- tables:    itself
-- holes:     owner
--
-- Unlogged: a row lives no longer than the sync procedure that brought it. The setting msrepl.touched says
-- where the rows are: an index, or a scan, would make unrelated transactions conflict under SERIALIZABLE.
set local role "msrepl_owner_0123456789ab";
create unlogged table if not exists msrepl.touched_row (
    xid xid8 not null,
    key jsonb not null,
    cause text not null
);
revoke all on msrepl.touched_row from public;
comment on table msrepl.touched_row is 'Rows of the table being synchronised that a trigger has changed again';
reset role;

-- msrepl.raise_triggered: refuses what a trigger of the Publisher changes in rows that were not sent.
-- called by: witness, check_touched
-- tables:    none
-- holes:     owner
--
-- The Subscriber that sent the change is passed over when the transaction is handed on, so it would never
-- see what else the transaction changed.
create or replace function msrepl.raise_triggered(article text, key jsonb, cause text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    raise exception '% of the Publisher changed another row of published table %: the Subscriber would not see it',
        cause, article
        using errcode = 'triggered_action_exception',
              detail = json_build_object('kind', 'triggered_change', 'number', 20515, 'article', article,
                                         'key', key, 'cause', cause)::text,
              hint = 'Make the change at the Publisher, or let the trigger leave published tables alone.';
end
$msrepl$;
alter function msrepl.raise_triggered(text, jsonb, text) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.raise_triggered(text, jsonb, text) from public;
comment on function msrepl.raise_triggered(text, jsonb, text) is 'Refuses what a trigger changes in rows that were not sent';

-- msrepl.check_touched: refuses that a trigger changed rows of the same table which were not sent.
-- called by: sp_mssync_ins_<table>, sp_mssync_upd_<table> of tables with triggers
-- tables:    msrepl.touched_row
-- holes:     owner
create or replace function msrepl.check_touched(article text, sent jsonb[]) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    touched constant tid[] :=
        string_to_array(coalesce(current_setting('msrepl.touched', true), ''), ' ')::tid[];
    other record;
begin
    if cardinality(touched) = 0 then
        return;
    end if;
    perform set_config('msrepl.touched', '', true);
    with touched as (
        delete from msrepl.touched_row as w where w.ctid = any (touched) and w.xid = pg_current_xact_id()
        returning w.key, w.cause
    )
    select t.key, t.cause into other
    from touched as t
    where t.key <> all ($2)
    limit 1;
    if found then
        perform msrepl.raise_triggered(article, other.key, other.cause);
    end if;
end
$msrepl$;
alter function msrepl.check_touched(text, jsonb[]) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.check_touched(text, jsonb[]) from public;
comment on function msrepl.check_touched(text, jsonb[]) is 'Refuses that a trigger changed rows which were not sent';

-- msrepl.witness: sees what triggers change in published rows while a Subscriber's change is applied.
-- called by: AFTER ROW triggers of published tables, for rows that another trigger changes
-- tables:    msrepl.branch_marker, msrepl.touched_row
-- holes:     owner
--
-- Arguments: the article, then the key's columns. A change of a row that the Subscriber has just sent goes
-- back to it with the answer (stored_rows); whether it was sent is checked there. Any other change is
-- refused. Transactions that no Subscriber began are none of its business.
create or replace function msrepl.witness() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    stack text;
    called text;
    cause text;
    held jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
    changed jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
    key jsonb;
    place tid;
begin
    if not exists (select from msrepl.branch_marker as m where m.xid = pg_current_xact_id()) then
        return null;
    end if;
    select jsonb_object_agg(k, coalesce(held, changed) -> k) into key from unnest(tg_argv[1:]) as k;
    get diagnostics stack = pg_context;
    called := substring(stack from 'PL/pgSQL function (?!msrepl\.)(\S+) line');
    select 'trigger ' || string_agg(
               format('%I of table %s', t.tgname, coalesce(nullif(n.nspname, 'public') || '.', '') || c.relname),
               ', ' order by t.tgname)
    into cause
    from pg_trigger as t
    join pg_proc as p on p.oid = t.tgfoid
    join pg_class as c on c.oid = t.tgrelid
    join pg_namespace as n on n.oid = c.relnamespace
    where not t.tgisinternal and t.tgparentid = 0
      and called in (p.oid::regprocedure::text, p.proname || '()', quote_ident(p.proname) || '()');
    cause := coalesce(cause, 'a trigger');
    if tg_op = 'UPDATE' and current_setting('msrepl.syncing', true) = tg_argv[0]
        and (select bool_and(held -> k = changed -> k) from unnest(tg_argv[1:]) as k)
    then
        insert into msrepl.touched_row as w (xid, key, cause) values (pg_current_xact_id(), key, cause)
        returning w.ctid into place;
        perform set_config('msrepl.touched',
            concat_ws(' ', nullif(current_setting('msrepl.touched', true), ''), place), true);
    else
        perform msrepl.raise_triggered(tg_argv[0], key, cause);
    end if;
    return null;
end
$msrepl$;
alter function msrepl.witness() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.witness() from public;
comment on function msrepl.witness() is 'Sees what triggers change in published rows while a Subscriber''s change is applied';

-- msrepl.sp_mssync_upd_trig: renews the row version when the statement itself did not set it.
-- called by: BEFORE UPDATE row trigger of every published table
-- tables:    the row in hand only
-- holes:     owner
--
-- "An update trigger at the Publisher updates the MSrepl_tran_version column for the updated rows when
-- needed" (seed 002). A sync procedure brings the Subscriber's version along, so it stands aside there.
-- The test is in the body: a WHEN clause would be parsed for every statement.
create or replace function msrepl.sp_mssync_upd_trig() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if new.msrepl_tran_version = old.msrepl_tran_version then
        new.msrepl_tran_version := gen_random_uuid();
    end if;
    return new;
end
$msrepl$;
alter function msrepl.sp_mssync_upd_trig() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.sp_mssync_upd_trig() from public;
comment on function msrepl.sp_mssync_upd_trig() is 'Renews the row version unless the statement set it';

-- msrepl.ddl_guard: after DDL, replaces the sync procedures of an article that no longer fits its table by
-- ones that say so, and refuses DDL that takes row versions away.
-- called by: event triggers of this database (ddl_guard_triggers.sql)
-- tables:    msrepl.sysarticles; catalogs
-- holes:     owner
--
-- The check costs nothing at run time: a stale article simply has other procedures, in the transaction of
-- the DDL itself, so they come and go with it. An article without a structure is being worked on.
create or replace function msrepl.ddl_guard() returns event_trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    touched oid[];
    article record;
    routine record;
begin
    -- nothing is left to guard, or the DDL is our own
    if to_regclass('msrepl.sysarticles') is null
        or exists (select from msrepl.sysarticles as a where a.structure = '')
    then
        return;
    end if;
    touched := msrepl.touched_tables(tg_event);
    for article in
        select a.article_id, a.objid, a.source_schema, a.source_object, a.procedures, c.oid is null as dropped,
               msrepl.table_structure(a.objid) is distinct from a.structure as altered
        from msrepl.sysarticles a
        left join pg_class c on c.oid = a.objid
        where touched is null or a.objid = any (touched)
    loop
        if not article.dropped and not exists (
            select from pg_attribute a
            where a.attrelid = article.objid and a.attname = 'msrepl_tran_version' and not a.attisdropped
              and a.attnotnull and a.atttypid = 'uuid'::regtype
        ) then
            raise exception 'column msrepl_tran_version of published table %.% cannot be changed or dropped (21080)',
                article.source_schema, article.source_object
                using errcode = 'dependent_objects_still_exist', hint = 'Unpublish the table first.';
        end if;
        if not article.dropped and not exists (
            select from pg_trigger t
            where t.tgrelid = article.objid and t.tgfoid = 'msrepl.sp_mssync_upd_trig'::regproc
              and t.tgenabled in ('O', 'A')
        ) then
            raise exception 'the trigger that renews row versions of published table %.% cannot be disabled or dropped',
                article.source_schema, article.source_object
                using errcode = 'dependent_objects_still_exist', hint = 'Unpublish the table first.';
        end if;
        continue when not article.altered;
        update msrepl.sysarticles a
        set stale = case when article.dropped then 'the table was dropped' else 'the table was altered' end
        where a.article_id = article.article_id and a.stale is null;
        continue when not found;
        for routine in
            select p.proname, pg_get_function_arguments(p.oid) as arguments
            from pg_proc p
            where p.oid = any (article.procedures)
        loop
            execute format(
                'create or replace procedure msrepl.%I(%s) language plpgsql security definer '
                'set search_path = pg_catalog, pg_temp as %L',
                routine.proname, routine.arguments,
                format('begin perform msrepl.raise_stale(%L, %L, ''Publisher''); end',
                       article.source_schema, article.source_object));
        end loop;
    end loop;
end
$msrepl$;
alter function msrepl.ddl_guard() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.ddl_guard() from public;
comment on function msrepl.ddl_guard() is 'Replaces procedures that no longer fit their table by ones that say so';

-- msrepl_ddl_guard, msrepl_drop_guard: watch for DDL that makes generated objects stale.
-- called by: DDL in this database
-- tables:    none
-- holes:     none
--
-- ENABLE ALWAYS: the guard holds in sessions with session_replication_role = replica too.
drop event trigger if exists msrepl_ddl_guard;
drop event trigger if exists msrepl_drop_guard;
create event trigger msrepl_ddl_guard on ddl_command_end
    when tag in ('ALTER TABLE', 'CREATE TABLE', 'CREATE TRIGGER', 'ALTER TRIGGER', 'CREATE INDEX', 'ALTER INDEX',
                 'CREATE RULE', 'ALTER RULE', 'ALTER SCHEMA', 'ALTER SEQUENCE', 'ALTER TYPE', 'ALTER DOMAIN',
                 'ALTER FUNCTION', 'ALTER COLLATION')
    execute function msrepl.ddl_guard();
create event trigger msrepl_drop_guard on sql_drop
    execute function msrepl.ddl_guard();
alter event trigger msrepl_ddl_guard enable always;
alter event trigger msrepl_drop_guard enable always;
