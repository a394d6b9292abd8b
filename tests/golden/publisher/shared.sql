-- msrepl.sysarticles, msrepl.syssubscriptions: what this database publishes, and to whom.
-- called by: twopc.publisher.publication, twopc.publisher.subscriptions, ddl_guard
-- tables:    themselves
-- holes:     owner
--
-- columns are the numbers of those chosen, which a rename leaves alone; NULL means all. structure is empty
-- while the procedures are being made. fingerprints are those of msrepl.fingerprints, NULL while we change them.
-- propagation says how changes travel, destination_procedures how the
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
    fingerprints text[],
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
-- called by: twopc.publisher.distributing, twopc.publisher.publication
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

-- msrepl.sysprocarticles: routines of this database that are published.
-- called by: twopc.publisher.proc_execution, open_bracket, proc_ddl_guard
-- tables:    itself
-- holes:     owner
--
-- Numbers are of the same sequence as those of sysarticles. definition is the user's, wrapper_source the body
-- of what stands in its place; NULL: nothing does. reads and writes: names of articles; NULL: not declared.
-- called: somebody takes the calls. working: our own DDL is under way.
set local role "msrepl_owner_0123456789ab";
create table if not exists msrepl.sysprocarticles (
    article_id integer primary key default nextval(pg_get_serial_sequence('msrepl.sysarticles', 'article_id'))
        check (article_id < 10000000),
    objid oid not null unique,
    schema text not null,
    name text not null,
    kind "char" not null,
    arguments jsonb not null,
    returns_set boolean not null,
    type text not null check (type in ('serializable proc exec', 'proc exec', 'proc schema only')),
    reads text[],
    writes text[],
    xact_abort boolean not null,
    commits boolean not null,
    replicate_ddl boolean not null,
    definition text not null,
    wrapper_source text,
    called boolean not null default false,
    obstacle text,
    warnings jsonb not null default '[]',
    working boolean not null default false
);
revoke all on msrepl.sysprocarticles from public;
comment on table msrepl.sysprocarticles is 'Routines of this database that are published';
reset role;

-- msrepl.log_message: what is posted into the log for every Subscriber: tracer tokens, validation requests.
-- called by: whoever posts; the log reader reads the inserts from the log
-- tables:    itself
-- holes:     owner
--
-- kind  tracer_token, validation, or procedure: a routine was defined anew, or its calls mean another thing now
-- body  what the command will hold
set local role "msrepl_owner_0123456789ab";
create table if not exists msrepl.log_message (
    id bigint generated always as identity primary key,
    kind text not null check (kind in ('tracer_token', 'validation', 'procedure')),
    body jsonb not null,
    created_at timestamptz not null default clock_timestamp()
);
do $msrepl$
begin
    -- one of an earlier version
    if not exists (select from pg_constraint where conrelid = 'msrepl.log_message'::regclass and contype = 'c'
                   and pg_get_constraintdef(oid) like '%procedure%') then
        alter table msrepl.log_message drop constraint log_message_kind_check;
        alter table msrepl.log_message add constraint log_message_kind_check
            check (kind in ('tracer_token', 'validation', 'procedure'));
    end if;
end
$msrepl$;
revoke all on msrepl.log_message from public;
comment on table msrepl.log_message is 'What is posted into the log for every Subscriber';
reset role;

-- msrepl.call_marker: where in the log the call of a published routine begins and where it ends.
-- called by: open_bracket, close_bracket; the log reader reads the inserts from the log
-- tables:    itself
-- holes:     owner
--
-- Rows are inserted and never looked up: a serializable caller must not depend on another one here.
--
-- opened    the row that began the call; NULL: this one does
-- snapshot  the caller's when it began
-- call      arguments and settings (twopc.proc_execution.ProcCall.as_text)
-- failure   SQLSTATE of the error that ended the call
set local role "msrepl_owner_0123456789ab";
create table if not exists msrepl.call_marker (
    id bigint generated always as identity primary key,
    article_id integer not null,
    opened bigint,
    snapshot text,
    call text,
    failure text,
    created_at timestamptz not null default clock_timestamp()
);
revoke all on msrepl.call_marker from public;
comment on table msrepl.call_marker is 'Where in the log a call begins and where it ends';
reset role;

-- msrepl.filter_rows: which images of rows belong to a filtered article.
-- called by: twopc.publisher.filters, for the log reader
-- tables:    none
-- holes:     path_is_kept, owner
--
-- The one door of the log reader's role to the filters, which run with the rights of their table's role. What
-- they call may be a user's, and may alter the functions of that role.
create or replace function msrepl.filter_rows(article integer, images text[]) returns boolean[]
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    filter constant regprocedure := format('msrepl.row_filter_%s(text[])', article);
    belong boolean[];
begin
    if not (select p.prosecdef from pg_proc as p where p.oid = filter) then
        raise exception 'function % is not SECURITY DEFINER any more', filter
            using errcode = 'insufficient_privilege',
                  hint = 'Somebody has altered it: run twopc regenerate, and look at what the row filter calls.';
    end if;
    execute format('select %s($1)', filter::regproc) into belong using images;
-- fragment: makes sure that code of a table's owner has not set the search path of those who go on.
-- called by: rendered behind calls of functions of a table's role
-- tables:    none
-- holes:     table_name
--
-- SET outlasts the call, whatever the function sets itself, and its callers have other rights.
    if pg_catalog.current_setting('search_path') operator(pg_catalog.<>) all (array['pg_catalog, pg_temp', '"pg_catalog", "pg_temp"']) then
        raise exception 'an expression or a trigger of table % has set search_path', 'of a row filter'
            using errcode = 'insufficient_privilege',
                  hint = 'Have its function SET search_path in its definition.';
    end if;
    return belong;
end
$msrepl$;
alter function msrepl.filter_rows(integer, text[]) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.filter_rows(integer, text[]) from public;
comment on function msrepl.filter_rows(integer, text[]) is 'Which images of rows belong to a filtered article';

-- msrepl.branch_marker: one row per branch of a global transaction that wrote in this database.
-- called by: sync procedures (Publisher), capture triggers, prepare_branch and prepare_publisher (Subscriber),
--            fence_branch (recovery)
-- tables:    itself
-- holes:     owner
--
-- gid          of the prepared transaction; unique, so that an aborter's row fences a late PREPARE
-- xid          of the branch; unique, so that a branch whose settings were reset cannot begin again
-- participants the other sites, so that they can be asked if the decision log is lost
-- originator   at the Publisher: the subscription that sent the change (loopback detection)
-- calls        at the Subscriber: remote calls sent; rolls back with the savepoint of the caller
-- prior        at the Subscriber: which subtransaction made the call before; the same one as now: nothing lies
--              between to which the caller could roll back
-- pending      at the Subscriber: remote calls not sent yet (lazy shipping, referential actions); not
--              compressed, because each statement that waits writes all of it again
-- prepared     at the Subscriber: the Publisher's branch is prepared, or there is none; nothing is captured after it
-- turn         at the Subscriber: how often its transaction was asked whether it is prepared, up to 8
-- asked_at     at the Subscriber: at which message of the client's it was asked last; null since the next call
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
    prepared boolean not null default false,
    turn smallint not null default 0,
    asked_at timestamptz,
    fence boolean not null default false,
    created_at timestamptz not null default clock_timestamp()
);
do $msrepl$
begin
    -- one of an earlier version; the lock is taken only then
    if not exists (select from pg_catalog.pg_attribute
                   where attrelid = 'msrepl.branch_marker'::pg_catalog.regclass and attname = 'prepared') then
        alter table msrepl.branch_marker
            add column prepared boolean not null default false, add column asked_at timestamptz;
    end if;
end
$msrepl$;
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
-- holes:     owner, pinned
--
-- Names stand in it as they stand in generated text: a rename makes that stale. What we change ourselves is
-- left out: our triggers, and whether keys are deferrable. NULL for a table that is not there any more.
-- The guard runs in anybody's session: constants and names are printed alike in all of them.
create or replace function msrepl.table_structure(relid oid) returns text
language sql stable
set search_path = pg_catalog, pg_temp
set datestyle = 'ISO'
set intervalstyle = 'postgres'
set timezone = 'UTC'
set extra_float_digits = '1'
set bytea_output = 'hex'
set lc_monetary = 'C'
set xmlbinary = 'base64'
set quote_all_identifiers = 'off'
set standard_conforming_strings = 'on'
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
-- A digest of every table after every command would make a database of many articles slow to alter. Routines and
-- types of ours are part of no table.
create or replace function msrepl.touched_tables(event text) returns oid[]
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    tables oid[];
    elsewhere boolean;
    in_tables boolean;
begin
    if event = 'table_rewrite' then
        -- its neighbours keep their rows; those of a partition are its parents', too
        return array(
            select pg_event_trigger_table_rewrite_oid()
          union
            select p.relid from pg_partition_ancestors(pg_event_trigger_table_rewrite_oid()) as p);
    elsif event = 'sql_drop' then
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
        with commands as (
            select d.schema_name,
                   d.object_type <> 'sequence'
                       and d.classid in ('pg_class'::regclass, 'pg_constraint'::regclass, 'pg_trigger'::regclass,
                                         'pg_rewrite'::regclass) as of_table
            from pg_event_trigger_ddl_commands() as d
        )
        select coalesce(bool_or(not c.of_table and c.schema_name is distinct from 'msrepl'), false),
               coalesce(bool_or(c.of_table), false)
        into elsewhere, in_tables
        from commands as c;
        if elsewhere then
            return null;
        elsif not in_tables then
            return '{}';
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

-- msrepl.fingerprints: what must stay as it was made of a table and its partitions, a text for each.
-- called by: publish/subscribe, missing_fingerprint
-- tables:    catalogs
-- holes:     owner, pinned, more
--
-- Our triggers, with all that says whether, when and what they execute. The names of the table and of its columns
-- are not part of it. A text begins with the oid of the relation and ends with a digest.
create or replace function msrepl.fingerprints(relid oid) returns text[]
language sql stable
set search_path = pg_catalog, pg_temp
set datestyle = 'ISO'
set intervalstyle = 'postgres'
set timezone = 'UTC'
set extra_float_digits = '1'
set bytea_output = 'hex'
set lc_monetary = 'C'
set xmlbinary = 'base64'
set quote_all_identifiers = 'off'
set standard_conforming_strings = 'on'
as $msrepl$
    with relations as (
        select $1 as oid union select p.relid from pg_partition_tree($1) as p
    )
    select array(
        select format('%s trigger %I %s', t.tgrelid, t.tgname, md5(row(
            t.tgfoid, t.tgtype, t.tgenabled, t.tgattr, t.tgqual, t.tgargs, t.tgoldtable, t.tgnewtable)::text))
        from relations as r
        join pg_trigger as t on t.tgrelid = r.oid
        join pg_proc as p on p.oid = t.tgfoid
        where not t.tgisinternal and p.pronamespace = 'msrepl'::regnamespace
-- fragment: how much of old rows the log holds must stay as it was made, too.
-- called by: rendered into msrepl.fingerprints
-- tables:    catalogs
-- holes:     none
      union all
        select format('%s replica identity %s', c.oid, c.relreplident)
        from relations as r
        join pg_class as c on c.oid = r.oid

        order by 1)
$msrepl$;
alter function msrepl.fingerprints(oid) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.fingerprints(oid) from public;
comment on function msrepl.fingerprints(oid) is 'What must stay as it was made of a table and its partitions';

-- msrepl.missing_fingerprint: what of a table, or of a partition that it still has, is not any more as it was made.
-- called by: ddl_guard
-- tables:    catalogs
-- holes:     owner
create or replace function msrepl.missing_fingerprint(relid oid, fingerprints text[]) returns text
language sql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
    select format('%s of table %s', substring(f.text from ' (.*) '), f.relation::regclass)
    from (
        select k.text, split_part(k.text, ' ', 1)::oid as relation
        from (select msrepl.fingerprints($1) as texts offset 0) as present, unnest($2) as k(text)
        where k.text <> all (present.texts)
    ) as f
    where f.relation = $1 or f.relation in (select p.relid from pg_partition_tree($1) as p)
    order by f.text
    limit 1
$msrepl$;
alter function msrepl.missing_fingerprint(oid, text[]) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.missing_fingerprint(oid, text[]) from public;
comment on function msrepl.missing_fingerprint(oid, text[]) is 'What of a table is not any more as it was made';

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
language plpgsql security definer
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
-- A row lives no longer than the sync procedure that brought it; the table is logged all the same, see
-- docs/crashes.md. The setting msrepl.touched says
-- where the rows are: an index, or a scan, would make unrelated transactions conflict under SERIALIZABLE.
set local role "msrepl_owner_0123456789ab";
create table if not exists msrepl.touched_row (
    xid xid8 not null,
    key jsonb not null,
    cause text not null
);
do $msrepl$
begin
    -- one of an earlier version
    if (select relpersistence = 'u' from pg_catalog.pg_class where oid = 'msrepl.touched_row'::pg_catalog.regclass) then
        alter table msrepl.touched_row set logged;
    end if;
end
$msrepl$;
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
language plpgsql security definer
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
    called := substring(stack from E'PL/pgSQL function (?!msrepl\\.)(\\S+) line');
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

-- msrepl.sp_mssync_upd_trig: gives a row a version that no row has had, whatever its writer says.
-- called by: BEFORE INSERT OR UPDATE row trigger of every published table
-- tables:    the row in hand only
-- holes:     owner, owner_name, salt
--
-- "An update trigger at the Publisher updates the MSrepl_tran_version column for the updated rows when
-- needed" (seed 002). A sync procedure brings the Subscriber's version along, so it stands aside there: for
-- statements in the role of the table (the first argument) or the owner's, which nobody can take, and not for those
-- of triggers that they fire. Nor where the table has BEFORE triggers of the user's, which says a second argument:
-- they might put any version in the place of the one that was sent. The row gets one that is derived from it and the
-- transaction, by which the sync procedure still knows it, and goes back to the Subscriber. (In the replica role the
-- owner's role puts rows back as they were: twopc.sim.topology.checkpoint.)
-- The test is in the body: a WHEN clause would be parsed for every statement.
create or replace function msrepl.sp_mssync_upd_trig() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if current_user not in (tg_argv[0], 'msrepl_owner_0123456789ab') or pg_trigger_depth() > 1
        or new.msrepl_tran_version = old.msrepl_tran_version
    then
        new.msrepl_tran_version := gen_random_uuid();
    elsif tg_nargs > 1 and current_setting('session_replication_role') <> 'replica' then
        new.msrepl_tran_version := md5(new.msrepl_tran_version::text || extract(epoch from now()) || ' ' || pg_backend_pid())::uuid;
    end if;
    return new;
end
$msrepl$;
alter function msrepl.sp_mssync_upd_trig() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.sp_mssync_upd_trig() from public;
comment on function msrepl.sp_mssync_upd_trig() is 'Gives a row a version of its own unless a Subscriber has sent one';

-- msrepl.ddl_guard: after DDL, or before it rewrites a table, replaces the sync procedures of an article that no
-- longer fits its table by ones that say so, and refuses DDL that takes row versions away.
-- called by: event triggers of this database (ddl_guard_triggers.sql)
-- tables:    msrepl.sysarticles; catalogs
-- holes:     owner
--
-- The check costs nothing at run time: a stale article simply has other procedures, in the transaction of
-- the DDL itself, so they come and go with it. An article without a structure is being worked on.
--
-- A rewrite may give rows other values under the versions that they have (ALTER COLUMN … TYPE … USING, a volatile
-- default): the article is stale even if its structure is what it was. Each command that touches a stale article
-- leaves another xmin: whoever has compared rows (twopc.sim.topology.regenerating) sees that they may have changed since.
create or replace function msrepl.ddl_guard() returns event_trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    touched oid[];
    missing text;
    article record;
    routine record;
begin
    if to_regclass('msrepl.sysarticles') is null then
        return;
    end if;
    -- a snapshot does not show what was published since; the index does, by a failure (40001)
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        begin
            -- under a number of no article: those of the sequence would be gone
            insert into msrepl.sysarticles (article_id, objid, source_schema, source_object, added_version, propagation, structure)
            overriding system value
            select (t::int8 - 2147483648)::int4, t, '', t, false, '{}', ''
            from unnest(coalesce(msrepl.touched_tables(tg_event), array(select c.oid from pg_class as c where c.relkind in ('r', 'p')))) as t
            order by t
            on conflict (objid) do nothing;
            raise exception 'undone';
        exception when raise_exception then null;
        end;
    end if;
    -- nothing is left to guard, or the DDL is our own
    if (select bool_and(a.structure <> '') from msrepl.sysarticles as a) is not true
    then
        return;
    end if;
    -- neither a default nor a type: rows stay as they are
    if tg_event = 'table_rewrite' and pg_event_trigger_table_rewrite_reason() & 6 = 0 then
        return;
    end if;
    touched := msrepl.touched_tables(tg_event);
    for article in
        select a.article_id, a.objid, a.source_schema, a.source_object, a.procedures, a.fingerprints, a.stale,
               c.oid is null as dropped,
               tg_event = 'table_rewrite'
                   or msrepl.table_structure(a.objid) is distinct from a.structure as altered
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
                using errcode = 'dependent_objects_still_exist', hint = 'Unpublish the table first: twopc unpublish.';
        end if;
        missing := msrepl.missing_fingerprint(article.objid, article.fingerprints);
        if not article.dropped and missing is not null then
            raise exception '% cannot be altered, disabled or dropped: published table %.% needs it as it is',
                missing, article.source_schema, article.source_object
                using errcode = 'dependent_objects_still_exist', hint = 'Unpublish the table first: twopc unpublish.';
        end if;
        continue when not article.altered;
        update msrepl.sysarticles a
        set stale = coalesce(
            a.stale, case when article.dropped then 'the table was dropped' else 'the table was altered' end)
        where a.article_id = article.article_id;
        continue when article.stale is not null;
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

-- msrepl_ddl_guard, msrepl_drop_guard, msrepl_rewrite_guard: watch for DDL that makes generated objects stale, or
-- that changes rows.
-- called by: DDL in this database
-- tables:    none
-- holes:     none
--
-- ENABLE ALWAYS: the guard holds in sessions with session_replication_role = replica too.
drop event trigger if exists msrepl_ddl_guard;
drop event trigger if exists msrepl_drop_guard;
drop event trigger if exists msrepl_rewrite_guard;
create event trigger msrepl_ddl_guard on ddl_command_end
    when tag in ('ALTER TABLE', 'CREATE TABLE', 'CREATE TRIGGER', 'ALTER TRIGGER', 'CREATE INDEX', 'ALTER INDEX',
                 'CREATE RULE', 'ALTER RULE', 'ALTER SCHEMA', 'ALTER SEQUENCE', 'ALTER TYPE', 'ALTER DOMAIN',
                 'ALTER FUNCTION', 'ALTER ROUTINE', 'ALTER COLLATION', 'ALTER EXTENSION', 'CREATE FOREIGN TABLE',
                 -- what it creates has no event of its own
                 'CREATE SCHEMA',
                 -- each renames columns of an ordinary table as well
                 'ALTER VIEW', 'ALTER MATERIALIZED VIEW', 'ALTER FOREIGN TABLE')
    execute function msrepl.ddl_guard();
create event trigger msrepl_drop_guard on sql_drop
    execute function msrepl.ddl_guard();
create event trigger msrepl_rewrite_guard on table_rewrite
    execute function msrepl.ddl_guard();
alter event trigger msrepl_ddl_guard enable always;
alter event trigger msrepl_drop_guard enable always;
alter event trigger msrepl_rewrite_guard enable always;

-- msrepl_call: the schema of what is made of published routines; callers find it, nobody puts anything in it.
-- called by: twopc.publisher.publication
-- tables:    pg_parameter_acl
-- holes:     owner, owner_name
--
-- The gate has messages in one language, whatever the caller's is: see open_bracket. Who may set a parameter is
-- one row for all databases: see grant_replica.
create schema if not exists msrepl_call;
revoke all on schema msrepl_call from public;
grant usage on schema msrepl_call to public;
grant usage, create on schema msrepl_call to "msrepl_owner_0123456789ab";
do $msrepl$
begin
    for attempt in 1 .. 100 loop
        begin
            exit when has_parameter_privilege('msrepl_owner_0123456789ab', 'lc_messages', 'set');
            grant set on parameter lc_messages to "msrepl_owner_0123456789ab";
        exception when internal_error or unique_violation then
            if attempt = 100 or sqlerrm !~ '^tuple concurrently|"pg_parameter_acl_parname_index"$' then
                raise;
            end if;
            perform pg_catalog.pg_sleep(0.01); -- caches hear of the other's change a moment after it has let go
        end;
    end loop;
end
$msrepl$;

-- msrepl.forget_calls: removes marks of calls that the log has had for long.
-- called by: the log reader
-- tables:    msrepl.call_marker
-- holes:     owner
create or replace function msrepl.forget_calls() returns void
language sql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
    delete from msrepl.call_marker as m where m.created_at < now() - interval '1 hour'
$msrepl$;
alter function msrepl.forget_calls() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.forget_calls() from public;
comment on function msrepl.forget_calls() is 'Removes marks of calls that the log has had for long';

-- msrepl_call.open_bracket: judges a call of a published routine, and marks where it begins.
-- called by: msrepl_call.run_<n>, by assignment: PERFORM would put a line between in the context
-- tables:    msrepl.sysprocarticles, msrepl.branch_marker, msrepl.call_marker
-- holes:     owner
--
-- Returns the mark's number; NULL: the call travels as rows. Everybody may execute it, and only the runner
-- gets an answer: the second line of the context says who calls, in one language, and with its schema unless
-- the caller had that in its search_path when the runner was compiled. A session may have every name quoted.
--
-- The lock is shared by calls of the routine and keeps DDL on it away until the caller has ended. Only then
-- is the row read: a definition and the calls that ran it stand in the log in the same order. Any role may take
-- the lock: only one that may change the row is waited for, and rows need no order.
create or replace function msrepl_call.open_bracket(article integer, call text) returns bigint
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lc_messages = 'C'
as $msrepl$
declare
    stack text;
    caller text;
    known msrepl.sysprocarticles;
    reason text;
    stranger text;
    opened bigint;
begin
    get diagnostics stack = pg_context;
    caller := split_part(stack, E'\n', 2);
    if starts_with(caller, 'PL/pgSQL function msrepl_call.run_' || article || '(') is not true
        and starts_with(caller, 'PL/pgSQL function "msrepl_call"."run_' || article || '"(') is not true
    then
        raise exception 'only msrepl_call.run_% opens a bracket', article
            using errcode = 'insufficient_privilege',
                  hint = 'Call the published routine itself, in a session whose search_path never had msrepl_call.';
    end if;
    if pg_is_in_recovery() or current_setting('transaction_read_only')::boolean then
        raise debug 'call of routine % travels as rows: read_only', article;
        return null;
    end if;
    if not pg_try_advisory_xact_lock_shared(1836282470, article) then
        select format('pid %s of role %s', l.pid, a.usename) into stranger
        from pg_locks as l join pg_stat_activity as a on a.pid = l.pid
        where l.locktype = 'advisory' and l.granted and l.mode = 'ExclusiveLock'
          and l.classid = 1836282470 and l.objid = article::oid and l.objsubid = 2
          and l.database = (select d.oid from pg_database as d where d.datname = current_database())
          and not has_table_privilege(a.usesysid, 'msrepl.sysprocarticles', 'update');
        if found then
            raise warning 'calls of routine % travel as rows: % holds the advisory lock (1836282470, %)', article, stranger, article;
            return null;
        end if;
        perform pg_advisory_xact_lock_shared(1836282470, article);
    end if;
    select a.* into known from msrepl.sysprocarticles as a where a.article_id = article;
    if known.called is not true then
        reason := 'nobody';
    elsif current_setting('transaction_isolation')
        <> all (case known.type when 'serializable proc exec' then array['serializable']
                else array['read committed', 'repeatable read', 'serializable'] end)
    then
        reason := 'isolation';
    elsif current_setting('session_replication_role') <> 'origin' then
        reason := 'replica';
    elsif known.obstacle is not null then
        reason := 'obstacle';
    elsif pg_my_temp_schema() <> 0
        and exists (select from pg_class as c where c.relnamespace = pg_my_temp_schema())
    then
        reason := 'temporary';
    elsif pg_current_xact_id_if_assigned() is not null
        and exists (select from msrepl.branch_marker as m
                    where m.xid = pg_current_xact_id_if_assigned() and not m.fence)
    then
        reason := 'branch';
    end if;
    if reason is not null then
        raise debug 'call of routine % travels as rows: %', article, reason;
        return null;
    end if;
    insert into msrepl.call_marker as m (article_id, snapshot, call)
    values (article, pg_current_snapshot()::text, call)
    returning m.id into opened;
    return opened;
end
$msrepl$;
alter function msrepl_call.open_bracket(integer, text) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl_call.open_bracket(integer, text) from public;
grant execute on function msrepl_call.open_bracket(integer, text) to public;
comment on function msrepl_call.open_bracket(integer, text) is 'Judges a call of a published routine, and marks where it begins';

-- msrepl_call.close_bracket: marks where a call of a published routine ends.
-- called by: msrepl_call.run_<n>, by assignment as open_bracket
-- tables:    msrepl.call_marker
-- holes:     owner
--
-- opened   what open_bracket returned
-- failure  the SQLSTATE that ended the call; NULL: none did
create or replace function msrepl_call.close_bracket(article integer, opened bigint, failure text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set lc_messages = 'C'
as $msrepl$
declare
    stack text;
    caller text;
begin
    get diagnostics stack = pg_context;
    caller := split_part(stack, E'\n', 2);
    if opened is null
        or starts_with(caller, 'PL/pgSQL function msrepl_call.run_' || article || '(') is not true
        and starts_with(caller, 'PL/pgSQL function "msrepl_call"."run_' || article || '"(') is not true
    then
        raise exception 'only msrepl_call.run_% closes a bracket', article
            using errcode = 'insufficient_privilege',
                  hint = 'Call the published routine itself, in a session whose search_path never had msrepl_call.';
    end if;
    insert into msrepl.call_marker (article_id, opened, failure) values (article, opened, failure);
end
$msrepl$;
alter function msrepl_call.close_bracket(integer, bigint, text) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl_call.close_bracket(integer, bigint, text) from public;
grant execute on function msrepl_call.close_bracket(integer, bigint, text) to public;
comment on function msrepl_call.close_bracket(integer, bigint, text) is 'Marks where a call of a published routine ends';

-- msrepl_call.settings: the caller's settings under which a body must run at a Subscriber too.
-- called by: msrepl_call.run_<n>
-- tables:    none
-- holes:     owner
--
-- search_path with the schemas that are there: "$user" is another at a Subscriber. The others are left out
-- where they are what agents set.
create or replace function msrepl_call.settings() returns jsonb
language sql stable
as $msrepl$
    select pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
        'search_path', coalesce(
            (select pg_catalog.string_agg(pg_catalog.quote_ident(u.name), ', ' order by u.place)
             from pg_catalog.unnest(pg_catalog.current_schemas(false)) with ordinality as u(name, place)), ''),
        'timezone', pg_catalog.current_setting('timezone'),
        'datestyle', nullif(pg_catalog.current_setting('datestyle'), 'ISO, MDY'),
        'intervalstyle', nullif(pg_catalog.current_setting('intervalstyle'), 'postgres'),
        'extra_float_digits', nullif(pg_catalog.current_setting('extra_float_digits'), '1'),
        'bytea_output', nullif(pg_catalog.current_setting('bytea_output'), 'hex'),
        'xmloption', nullif(pg_catalog.current_setting('xmloption'), 'content'),
        'array_nulls', nullif(pg_catalog.current_setting('array_nulls'), 'on'),
        'transform_null_equals', nullif(pg_catalog.current_setting('transform_null_equals'), 'off')))
$msrepl$;
alter function msrepl_call.settings() owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl_call.settings() from public;
grant execute on function msrepl_call.settings() to public;
comment on function msrepl_call.settings() is 'The caller''s settings under which a body must run at a Subscriber too';

-- msrepl.proc_fit_body: gives a published routine's body the owner and the rights of the routine.
-- called by: twopc.publisher.proc_execution, proc_ddl_guard
-- tables:    msrepl.sysprocarticles; catalogs
-- holes:     owner
--
-- It runs with the rights of the caller, who must be an administrator. What it does is DDL too, which the guard
-- must not take for somebody else's.
create or replace function msrepl.proc_fit_body(article integer) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    routine pg_proc;
    body pg_proc;
    entry record;
    was boolean;
begin
    select a.working into was from msrepl.sysprocarticles as a where a.article_id = article;
    update msrepl.sysprocarticles as a set working = true where a.article_id = article and not a.working;
    select p.* into strict routine
    from msrepl.sysprocarticles as a join pg_proc as p on p.oid = a.objid where a.article_id = article;
    select p.* into strict body
    from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
    where n.nspname = 'msrepl_body_' || article;
    if body.proowner <> routine.proowner then
        execute format('alter routine %s owner to %s', body.oid::regprocedure, routine.proowner::regrole);
    end if;
    for entry in
        select distinct x.grantee from aclexplode(coalesce(body.proacl, acldefault('f', body.proowner))) as x
    loop
        execute format('revoke all on routine %s from %s cascade', body.oid::regprocedure,
                       case entry.grantee when 0 then 'public' else entry.grantee::regrole::text end);
    end loop;
    for entry in
        select distinct x.grantee from aclexplode(coalesce(routine.proacl, acldefault('f', routine.proowner))) as x
    loop
        execute format('grant execute on routine %s to %s', body.oid::regprocedure,
                       case entry.grantee when 0 then 'public' else entry.grantee::regrole::text end);
    end loop;
    update msrepl.sysprocarticles as a set working = was where a.article_id = article and a.working <> was;
end
$msrepl$;
alter function msrepl.proc_fit_body(integer) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.proc_fit_body(integer) from public;
comment on function msrepl.proc_fit_body(integer) is 'Gives a published routine''s body the owner and the rights of the routine';

-- msrepl.proc_obstacle: what at the Publisher would do more to these tables than a call does at a Subscriber.
-- called by: twopc.publisher.proc_execution, proc_ddl_guard
-- tables:    msrepl.sysarticles; catalogs
-- holes:     owner, pinned
--
-- Agents work as replicas: there neither triggers nor referential actions do anything.
--
-- writes   names of articles; NULL: all, and all if there is none of such a name any more
-- returns  a sentence that names the first; NULL: there is none
create or replace function msrepl.proc_obstacle(writes text[]) returns text
language sql stable
set search_path = pg_catalog, pg_temp
set datestyle = 'ISO'
set intervalstyle = 'postgres'
set timezone = 'UTC'
set extra_float_digits = '1'
set bytea_output = 'hex'
set lc_monetary = 'C'
set xmlbinary = 'base64'
set quote_all_identifiers = 'off'
set standard_conforming_strings = 'on'
as $msrepl$
    with known as (
        select a.objid, case a.source_schema when 'public' then a.source_object
                        else a.source_schema || '.' || a.source_object end as name
        from msrepl.sysarticles as a
    ), written as (
        select a.objid, a.name, p.relid
        from known as a
        cross join lateral (select a.objid as relid union select t.relid from pg_partition_tree(a.objid) as t) as p
        where writes is null or a.name = any (writes)
           or not writes <@ (select array_agg(k.name) from known as k)
    ), found as (
        select format('table %s has trigger %s', w.name, t.tgname) as obstacle
        from written as w
        join pg_trigger as t on t.tgrelid = w.relid
        join pg_proc as f on f.oid = t.tgfoid
        where not t.tgisinternal and t.tgenabled <> 'D' and f.pronamespace <> 'msrepl'::regnamespace
      union all
        select format('table %s has rule %s', w.name, r.rulename)
        from written as w join pg_rewrite as r on r.ev_class = w.relid
      union all
        select format('foreign key %s changes rows of table %s when those of table %s change',
                      k.conname, k.conrelid::regclass, w.name)
        from written as w join pg_constraint as k on k.confrelid = w.relid and k.contype = 'f'
        where k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd')
    )
    select f.obstacle || ', which does nothing at Subscribers' from found as f order by 1 limit 1
$msrepl$;
alter function msrepl.proc_obstacle(text[]) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.proc_obstacle(text[]) from public;
comment on function msrepl.proc_obstacle(text[]) is 'What would do more to these tables than a call does at a Subscriber';

-- msrepl.proc_described: the arguments of a routine, as sysprocarticles keeps them.
-- called by: twopc.publisher.proc_execution, proc_ddl_guard
-- tables:    catalogs
-- holes:     owner, pinned
create or replace function msrepl.proc_described(routine oid) returns jsonb
language sql stable
set search_path = pg_catalog, pg_temp
set datestyle = 'ISO'
set intervalstyle = 'postgres'
set timezone = 'UTC'
set extra_float_digits = '1'
set bytea_output = 'hex'
set lc_monetary = 'C'
set xmlbinary = 'base64'
set quote_all_identifiers = 'off'
set standard_conforming_strings = 'on'
as $msrepl$
    select coalesce(jsonb_agg(jsonb_build_object(
               'name', coalesce(p.proargnames[u.place], ''),
               'mode', coalesce(p.proargmodes[u.place]::text, 'i'),
               'type', format_type(u.type, null)) order by u.place), '[]')
    from pg_proc as p
    cross join unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])) with ordinality as u(type, place)
    where p.oid = routine
$msrepl$;
alter function msrepl.proc_described(oid) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.proc_described(oid) from public;
comment on function msrepl.proc_described(oid) is 'The arguments of a routine, as sysprocarticles keeps them';

-- msrepl.proc_redefined: takes over what a user has defined in the place of a published routine.
-- called by: proc_ddl_guard
-- tables:    msrepl.sysprocarticles, msrepl.log_message; catalogs
-- holes:     owner, pinned
--
-- CREATE OR REPLACE keeps names, types and result: what was made of them fits still. The new text becomes the
-- body, what stands in its place is put back, and the definition is posted for the Subscribers. It runs with
-- the rights of the caller, who must be an administrator.
create or replace function msrepl.proc_redefined(article integer) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set datestyle = 'ISO'
set intervalstyle = 'postgres'
set timezone = 'UTC'
set extra_float_digits = '1'
set bytea_output = 'hex'
set lc_monetary = 'C'
set xmlbinary = 'base64'
set quote_all_identifiers = 'off'
set standard_conforming_strings = 'on'
set check_function_bodies = off
as $msrepl$
declare
    known msrepl.sysprocarticles;
    routine pg_proc;
    defined text;
    head text;
    -- comments and strings
    texts constant text := E'--[^\\n]*|/\\*([^*]|\\*+[^*/])*\\*+/|[eE]''([^''\\\\]|\\\\.|'''')*''|''([^'']|'''')*''';
begin
    select a.* into strict known from msrepl.sysprocarticles as a where a.article_id = article;
    select p.* into strict routine from pg_proc as p where p.oid = known.objid;
    if routine.prokind = 'f' and routine.provolatile <> 'v' then
        raise exception 'published function %.% must be VOLATILE: its calls are marked in the log',
            known.schema, known.name
            using errcode = 'dependent_objects_still_exist', hint = 'Unpublish it first: twopc procedure unpublish.';
    end if;
    if routine.prolang in (select l.oid from pg_language as l where l.lanname in ('internal', 'c')) then
        raise exception 'published routine %.% cannot be one without a text (21004)', known.schema, known.name
            using errcode = 'dependent_objects_still_exist', hint = 'Unpublish it first: twopc procedure unpublish.';
    end if;
    defined := rtrim(pg_get_functiondef(routine.oid), E'\n');
    if known.wrapper_source is not null then
        if routine.prokind = 'p'
            and regexp_replace(routine.prosrc, texts, ' ', 'g') ~* E'(^|;|>>|\\m(begin|then|else|loop))\\s*(commit|rollback)\\M'
        then
            raise exception 'published routine %.% cannot end transactions: a call of it is one', known.schema, known.name
                using errcode = 'dependent_objects_still_exist',
                      hint = 'Unpublish it first (twopc procedure unpublish), and publish it as ''proc exec''.';
        end if;
        head := format('CREATE OR REPLACE %s %I.%I(',
                       case routine.prokind when 'p' then 'PROCEDURE' else 'FUNCTION' end, known.schema, known.name);
        if not starts_with(defined, head) then
            raise exception 'the definition of routine %.% cannot be read: %', known.schema, known.name, defined;
        end if;
        update msrepl.sysprocarticles as a set working = true where a.article_id = article;
        execute format('CREATE OR REPLACE %s %I.%I(',
                       case routine.prokind when 'p' then 'PROCEDURE' else 'FUNCTION' end,
                       'msrepl_body_' || article, known.name)
            || substr(defined, length(head) + 1);
        execute format('create or replace %s %I.%I(%s)%s language plpgsql%s as %L',
                       case routine.prokind when 'p' then 'procedure' else 'function' end, known.schema, known.name,
                       pg_get_function_arguments(routine.oid),
                       ' returns ' || pg_get_function_result(routine.oid),
                       case when routine.proisstrict then ' strict' else '' end, known.wrapper_source);
        perform msrepl.proc_fit_body(article);
    end if;
    update msrepl.sysprocarticles as a
    set (definition, arguments, working) = (defined, msrepl.proc_described(routine.oid), false)
    where a.article_id = article;
    if known.replicate_ddl then
        insert into msrepl.log_message (kind, body)
        values ('procedure', jsonb_build_object('article', article, 'definition', defined));
    end if;
end
$msrepl$;
alter function msrepl.proc_redefined(integer) owner to "msrepl_owner_0123456789ab";
revoke all on function msrepl.proc_redefined(integer) from public;
comment on function msrepl.proc_redefined(integer) is 'Takes over what a user has defined in the place of a published routine';

-- msrepl.proc_ddl_guard: keeps published routines what they are, and carries new definitions on.
-- called by: event triggers of this database (proc_guard_triggers.sql)
-- tables:    msrepl.sysprocarticles, msrepl.log_message; catalogs
-- holes:     owner, pinned
--
-- Its owner is the administrator who installs: it defines routines anew that belong to their users. It runs
-- nothing of theirs. While an article is being worked on, the DDL is our own.
--
-- The lock waits for callers of the routine: a call in the log ran the definition before it, and met the
-- triggers that there were when it began. A caller whose snapshot is older than a new trigger reads the row
-- of before; so the change is posted, and the log reader takes it for a writer whom that snapshot did not see.
create or replace function msrepl.proc_ddl_guard() returns event_trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
set datestyle = 'ISO'
set intervalstyle = 'postgres'
set timezone = 'UTC'
set extra_float_digits = '1'
set bytea_output = 'hex'
set lc_monetary = 'C'
set xmlbinary = 'base64'
set quote_all_identifiers = 'off'
set standard_conforming_strings = 'on'
as $msrepl$
declare
    touched oid[] := array[]::oid[];
    rights boolean := false;
    tables boolean;
    lost text;
    article record;
begin
    if to_regclass('msrepl.sysprocarticles') is null then
        return;
    end if;
    -- a snapshot does not show what was published since; the index does, by a failure (40001)
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        begin
            insert into msrepl.sysprocarticles (article_id, objid, schema, name, kind, arguments, returns_set, type,
                                                xact_abort, commits, replicate_ddl, definition)
            select n, (4294967295 - n)::oid, '', '', 'p', '{}', false, 'proc exec', false, false, false, ''
            from msrepl.sysarticles_article_id_seq as s, generate_series(1, s.last_value) as n
            order by n
            on conflict (article_id) do nothing;
            raise exception 'undone';
        exception when raise_exception then null;
        end;
    end if;
    if not exists (select from msrepl.sysprocarticles)
        or exists (select from msrepl.sysprocarticles as a where a.working)
    then
        return;
    end if;
    if tg_event = 'sql_drop' then
        select format('%s cannot be dropped: it is published', d.object_identity) into lost
        from pg_event_trigger_dropped_objects() as d
        where d.classid = 'pg_proc'::regclass
          and (d.objid in (select a.objid from msrepl.sysprocarticles as a)
               or d.schema_name in (select 'msrepl_body_' || a.article_id from msrepl.sysprocarticles as a)
               -- the identity is printed as the session prints
               or d.address_names[1] = 'msrepl_call' and d.address_names[2] ~ '^(run|args)_[0-9]+$')
        limit 1;
        tables := exists (
            select from pg_event_trigger_dropped_objects() as d
            where d.object_type in ('table', 'trigger', 'rule', 'table constraint') and not d.is_temporary);
    else
        select array_agg(d.objid) filter (where d.classid = 'pg_proc'::regclass),
               coalesce(bool_or(tg_tag in ('GRANT', 'REVOKE') and lower(d.object_type) in ('function', 'procedure', 'routine')), false),
               coalesce(bool_or(tg_tag in ('CREATE TABLE', 'ALTER TABLE', 'CREATE TRIGGER', 'CREATE RULE')), false),
               min(format('%s cannot be altered: it is part of a published routine', d.object_identity))
                   filter (where d.schema_name ~ '^msrepl_body_[0-9]+$'
                              or d.object_identity ~ E'^msrepl_call\\.(run|args)_[0-9]+\\(')
        into touched, rights, tables, lost
        from pg_event_trigger_ddl_commands() as d;
    end if;
    if lost is not null then
        raise exception '%', lost
            using errcode = 'dependent_objects_still_exist', hint = 'Unpublish it first: twopc procedure unpublish.';
    end if;
    for article in
        select a.*, n.nspname, p.proname, p.proowner, p.prosrc, p.prosqlbody, p.prosecdef, p.proconfig, p.provolatile, l.lanname
        from msrepl.sysprocarticles as a
        join pg_proc as p on p.oid = a.objid
        join pg_namespace as n on n.oid = p.pronamespace
        join pg_language as l on l.oid = p.prolang
        where a.objid = any (touched) or tg_tag = 'ALTER SCHEMA' and n.nspname <> a.schema
    loop
        if (article.nspname, article.proname) is distinct from (article.schema, article.name) then
            raise exception 'routine %.% cannot be renamed or moved: it is published', article.schema, article.name
                using errcode = 'dependent_objects_still_exist',
                      hint = 'Unpublish it first: twopc procedure unpublish.';
        end if;
        perform pg_advisory_xact_lock(1836282470, article.article_id);
        if article.wrapper_source is null
            or article.lanname <> 'plpgsql' or article.prosrc is distinct from article.wrapper_source
        then
            perform msrepl.proc_redefined(article.article_id);
        elsif article.prosecdef or article.proconfig is not null or article.provolatile <> 'v' then
            raise exception 'properties of published routine %.% cannot be altered', article.schema, article.name
                using errcode = 'dependent_objects_still_exist',
                      hint = 'Say them with its text in CREATE OR REPLACE, or unpublish it first.';
        else
            perform msrepl.proc_fit_body(article.article_id);
        end if;
    end loop;
    if rights then
        perform msrepl.proc_fit_body(a.article_id)
        from msrepl.sysprocarticles as a where a.wrapper_source is not null;
    end if;
    if tables then
        for article in
            select a.article_id, msrepl.proc_obstacle(a.writes) as obstacle
            from msrepl.sysprocarticles as a
            where a.obstacle is distinct from msrepl.proc_obstacle(a.writes)
        loop
            perform pg_advisory_xact_lock(1836282470, article.article_id);
            update msrepl.sysprocarticles as a set obstacle = article.obstacle where a.article_id = article.article_id;
            insert into msrepl.log_message (kind, body)
            values ('procedure', jsonb_build_object('article', article.article_id));
        end loop;
    end if;
end
$msrepl$;
alter function msrepl.proc_ddl_guard() owner to current_user;
revoke all on function msrepl.proc_ddl_guard() from public;
comment on function msrepl.proc_ddl_guard() is 'Keeps published routines what they are, and carries new definitions on';
