-- The role that owns our objects at a Subscriber, and their schema.
-- called by: twopc.subscriber.subscription, the script of a subscription
-- tables:    none
-- holes:     owner, owner_text, schema
do $msrepl$
begin
    if not exists (select from pg_roles where rolname = 'msrepl_owner_8d9001d32c6a') then
        create role "msrepl_owner_8d9001d32c6a" nologin;
    end if;
    if to_regclass('msrepl.sysmergearticles') is not null then
        raise exception 'database "%" merges tables: it cannot subscribe in another way as well (21266)', current_database()
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Let another database subscribe.';
    end if;
    if to_regclass('msrepl.sysarticles') is not null then
        raise exception 'database "%" publishes tables itself: it cannot subscribe as well', current_database()
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Let another database subscribe.';
    end if;
end
$msrepl$;
create schema if not exists "msrepl";
grant all on schema "msrepl" to "msrepl_owner_8d9001d32c6a";

-- dblink in a schema of its own, for the owner of our functions only.
-- called by: twopc.subscriber.subscription, the script of a subscription
-- tables:    none
-- holes:     owner, link_schema, link_schema_text
--
-- An open link belongs to the session, not to a role: whoever may execute dblink functions could use it.
do $msrepl$
declare
    held text;
begin
    select n.nspname into held
    from pg_extension e
    join pg_namespace n on n.oid = e.extnamespace
    where e.extname = 'dblink';
    if held <> 'msrepl_link' then
        raise exception 'extension dblink is in schema "%", where every role may use an open link', held
            using errcode = 'object_not_in_prerequisite_state',
                  hint = format('ALTER EXTENSION dblink SET SCHEMA %I', 'msrepl_link');
    elsif held is null then
        if to_regnamespace('msrepl_link') is null then
            create schema "msrepl_link";
            comment on schema "msrepl_link" is 'Made for a subscription, with dblink in it';
        end if;
        create extension dblink schema "msrepl_link";
        comment on extension dblink is 'Made for a subscription';
    end if;
end
$msrepl$;
revoke all on all functions in schema "msrepl_link" from public;
revoke all on schema "msrepl_link" from public;
grant usage on schema "msrepl_link" to "msrepl_owner_8d9001d32c6a";
grant execute on all functions in schema "msrepl_link" to "msrepl_owner_8d9001d32c6a";

drop server if exists "msrepl_publisher" cascade;

create server "msrepl_publisher" foreign data wrapper dblink_fdw options ("host" 'pub.example', "port" '5432', "dbname" 'sales', "options" '-c lock_timeout=5000 -c idle_in_transaction_session_timeout=60s -c datestyle=ISO -c intervalstyle=postgres -c extra_float_digits=1 -c timezone=UTC -c array_nulls=on -c xmloption=content -c standard_conforming_strings=on -c quote_all_identifiers=off -c plan_cache_mode=force_generic_plan -c client_min_messages=error -c synchronous_commit=on -c client_connection_check_interval=300ms', "keepalives_idle" '10', "keepalives_interval" '5', "keepalives_count" '3', "tcp_user_timeout" '25000');

grant usage on foreign server "msrepl_publisher" to "msrepl_owner_8d9001d32c6a";

-- msrepl.mssubscription_agents, msrepl.msreplication_objects: the subscription of this database and the
-- objects it brought in.
-- called by: twopc.subscriber.subscription, twopc.subscriber.read_only
-- tables:    themselves
-- holes:     owner
create table if not exists msrepl.mssubscription_agents (
    publisher text primary key,
    subscriber text not null,
    publisher_db text not null,
    link text,
    update_mode text not null default 'sync tran' check (update_mode in ('sync tran', 'read only')),
    status text not null default 'active' check (status in ('active', 'inactive')),
    status_reason text
);
comment on table msrepl.mssubscription_agents is 'The subscription: its Publisher, the server object of its link (none where it is read only), and whether it is active';
create table if not exists msrepl.msreplication_objects (
    objid oid primary key,
    dest_schema text not null,
    article text not null,
    created_table boolean not null,
    added_version boolean not null,
    added_keys text[] not null default array[]::text[],
    structure text not null default '',
    routines oid[] not null default array[]::oid[],
    fingerprints text[],
    parents oid[] not null default array[]::oid[],
    sync_calls jsonb not null,
    write_back text,
    stale text,
    unique (dest_schema, article)
);
comment on table msrepl.msreplication_objects is 'Subscribed tables, and what is needed to take the subscription away again';
alter table msrepl.mssubscription_agents owner to "msrepl_owner_8d9001d32c6a";
alter table msrepl.msreplication_objects owner to "msrepl_owner_8d9001d32c6a";
revoke all on msrepl.mssubscription_agents, msrepl.msreplication_objects from public;

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
set local role "msrepl_owner_8d9001d32c6a";
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
alter function msrepl.raise_conflict(text, text, integer, text, jsonb, text, text, jsonb, text, text[]) owner to "msrepl_owner_8d9001d32c6a";
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
alter function msrepl.raise_stale(text, text, text) owner to "msrepl_owner_8d9001d32c6a";
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
alter function msrepl.table_structure(oid) owner to "msrepl_owner_8d9001d32c6a";
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
alter function msrepl.touched_tables(text) owner to "msrepl_owner_8d9001d32c6a";
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
        order by 1)
$msrepl$;
alter function msrepl.fingerprints(oid) owner to "msrepl_owner_8d9001d32c6a";
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
alter function msrepl.missing_fingerprint(oid, text[]) owner to "msrepl_owner_8d9001d32c6a";
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
alter function msrepl.refuse_truncate() owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.refuse_truncate() from public;
comment on function msrepl.refuse_truncate() is 'Refuses TRUNCATE of a replicated table';

-- msrepl.raise_uncoordinated: a change that belongs to no global transaction, or no longer, is refused.
-- called by: capture triggers, name_transaction, begin_any_client
-- tables:    msrepl.branch_marker
-- holes:     owner
create or replace function msrepl.raise_uncoordinated(table_name text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    facts constant text := json_build_object('kind', 'uncoordinated', 'number', 20512, 'article', $1)::text;
begin
    if exists (select from msrepl.branch_marker as m where m.xid = pg_current_xact_id_if_assigned()) then
        raise exception 'table % was changed after this transaction was prepared at the Publisher, or after its settings msrepl.* were changed', $1
            using errcode = 'invalid_transaction_state',
                  detail = facts,
                  hint = 'Roll back and try again. RESET ALL has no place in a global transaction, and deferred triggers that change replicated tables must fire before its end: SET CONSTRAINTS ALL IMMEDIATE.';
    end if;
    raise exception 'table % has an immediate-updating subscription: it is changed in a global transaction only', $1
        using errcode = 'invalid_transaction_state',
              detail = facts,
              hint = 'Use topology.transaction(...) or a session of a scenario, which begin one; or let any client write here: `twopc any-client on`.';
end
$msrepl$;
alter function msrepl.raise_uncoordinated(text) owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.raise_uncoordinated(text) from public;
comment on function msrepl.raise_uncoordinated(text) is 'Refuses a change outside a global transaction';

-- msrepl.name_transaction: the global transaction that a first captured change belongs to.
-- called by: capture triggers, send_held
-- tables:    msrepl.branch_marker
-- holes:     is_proven, owner
--
-- The setting msrepl.gid is anybody's to change, and gids of prepared transactions are anybody's to read: a
-- marker under another's name would pass for that one's decision. So a name counts with its coordinator's proof.
create or replace function msrepl.name_transaction(table_name text) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    gid constant text := nullif(current_setting('msrepl.gid', true), '');
begin
    if gid is null then
        return msrepl.begin_any_client($1);
    end if;
-- fragment: FOUND if the coordinator of a global transaction itself says what is said.
-- called by: rendered into name_transaction and prepare_publisher (a function of its own would cost twice as much)
-- tables:    msrepl.coordinator_key
-- holes:     what, gid, proof
--
-- what: `begin`, which the application's session may know as long as its transaction lasts, or `vote` and all
-- branches, which it never learns in time; either holds for this session alone. The key stands at both ends, so that
-- nobody can make a proof of a longer text.
    perform from msrepl.coordinator_key as k
    where k.key_id = split_part(current_setting('msrepl.proof', true), '.', 1) and starts_with(gid, 'twopc:' || k.coordinator || ':')
      and split_part(current_setting('msrepl.proof', true), '.', 2) = encode(sha256(k.key || convert_to('begin' || ' ' || gid || ' ' || pg_backend_pid(), 'UTF8') || k.key), 'hex');
    if found then
        return gid;
    elsif exists (select from msrepl.branch_marker as m where m.xid = pg_current_xact_id_if_assigned()) then
        perform msrepl.raise_uncoordinated($1);
    end if;
    raise exception 'transaction % was not begun here by its coordinator', gid
        using errcode = 'insufficient_privilege',
              hint = 'Only a coordinator names a transaction, as topology.transaction(...) does: leave msrepl.gid alone.';
end
$msrepl$;
alter function msrepl.name_transaction(text) owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.name_transaction(text) from public;
comment on function msrepl.name_transaction(text) is 'The global transaction that a change belongs to';

-- msrepl.any_client, msrepl.any_client_sequence: whether any client may change subscribed tables, and what the
-- global transactions are called that its own transactions are made.
-- called by: begin_any_client, refuse_unprepared, twopc.subscriber.any_client
-- tables:    itself
-- holes:     owner
--
-- No row: only a coordinator's transactions may. The sequence begins with the epoch, which is never used again.
set local role "msrepl_owner_8d9001d32c6a";
create table if not exists msrepl.any_client (
    only_one boolean primary key default true check (only_one),
    coordinator text not null,
    epoch bigint not null
);
create sequence if not exists msrepl.any_client_sequence;
revoke all on msrepl.any_client from public;
revoke all on sequence msrepl.any_client_sequence from public;
comment on table msrepl.any_client is 'In whose name any client may change subscribed tables; no row: it may not';
comment on sequence msrepl.any_client_sequence is 'Numbers the global transactions of any client';
reset role;

-- msrepl.begin_any_client: makes a client's own transaction a global one, at its first captured change.
-- called by: name_transaction
-- tables:    msrepl.any_client
-- holes:     owner, link
--
-- Its name is rolled back with the savepoint in which the change was made, as is the branch marker; the next
-- change then gets another, and the Publisher's transaction begins anew. After RESET ALL the marker of the
-- first name is still there, and a second one in the same transaction is refused by its caller.
--
-- The resolver ends a link that a rollback has left in a transaction, under the advisory lock (1836282472, pid of
-- this session). Whoever has begun shares it, and keeps the link; whoever cannot, because the link is being ended
-- or a stranger holds the lock, takes a new one.
create or replace function msrepl.begin_any_client(table_name text) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    gid text;
begin
    select 'twopc:' || a.coordinator || ':' || a.epoch || ':' || nextval('msrepl.any_client_sequence') into gid
    from msrepl.any_client as a;
    if gid is null then
        perform msrepl.raise_uncoordinated($1);
    end if;
    perform set_config('msrepl.gid', gid, true);
    if not pg_try_advisory_xact_lock_shared(1836282472, pg_backend_pid())
        and 'msrepl' = any (msrepl_link.dblink_get_connections())
    then
        perform msrepl_link.dblink_disconnect('msrepl');
    end if;
    return gid;
end
$msrepl$;
alter function msrepl.begin_any_client(text) owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.begin_any_client(text) from public;
comment on function msrepl.begin_any_client(text) is 'Makes a client''s own transaction a global one';

-- msrepl.raise_inactive: what the triggers of an inactive subscription do.
-- called by: capture triggers, put in place by msrepl.deactivate
-- tables:    msrepl.mssubscription_agents
-- holes:     owner
create or replace function msrepl.raise_inactive() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    reason text;
begin
    select a.status_reason into reason from msrepl.mssubscription_agents as a;
    raise exception 'the subscription of this database is inactive: %', reason
        using errcode = 'object_not_in_prerequisite_state',
              detail = json_build_object('kind', 'inactive', 'number', 21064)::text,
              hint = 'Remove the cause, then run: twopc activate';
end
$msrepl$;
alter function msrepl.raise_inactive() owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.raise_inactive() from public;
comment on function msrepl.raise_inactive() is 'Refuses a change because the subscription is inactive';

-- msrepl.deactivate: makes the subscription inactive: its tables refuse changes until it is activated.
-- called by: twopc.subscriber.subscription, the guard that watches DDL
-- tables:    msrepl.mssubscription_agents, msrepl.msreplication_objects
-- holes:     owner
--
-- Without a reason: puts what was made meanwhile into the state of the subscription. The state costs nothing
-- at run time: an inactive subscription simply has other trigger functions.
create or replace function msrepl.deactivate(reason text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    routine oid;
begin
    if $1 is not null then
        update msrepl.mssubscription_agents as a
        set status = 'inactive',
            status_reason = case when a.status = 'inactive' then a.status_reason || '; ' else '' end || $1;
    elsif not exists (select from msrepl.mssubscription_agents as a where a.status = 'inactive') then
        return;
    end if;
    for routine in select unnest(o.routines) from msrepl.msreplication_objects as o loop
        execute format(
            'create or replace function %s() returns trigger language plpgsql security definer '
            'set search_path = pg_catalog, pg_temp as %L',
            routine::regproc, 'begin perform msrepl.raise_inactive(); return null; end');
    end loop;
end
$msrepl$;
alter function msrepl.deactivate(text) owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.deactivate(text) from public;
comment on function msrepl.deactivate(text) is 'Makes the subscription inactive: its tables refuse changes';

-- msrepl.drop_triggers: drops our triggers of a table and of its partitions.
-- called by: an administrator: subscribing, regenerating, unsubscribing
-- tables:    catalogs; msrepl.msreplication_objects
-- holes:     owner
--
-- And those of tables that belong to no subscribed table any more: a partition keeps them when it is detached.
create or replace function msrepl.drop_triggers(relation regclass) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    command text;
begin
    for command in
        select format('drop trigger %I on %s', t.tgname, t.tgrelid::regclass)
        from pg_trigger t
        join pg_proc p on p.oid = t.tgfoid and p.pronamespace = 'msrepl'::regnamespace
        join pg_class c on c.oid = t.tgrelid and c.relnamespace <> 'msrepl'::regnamespace
        where t.tgparentid = 0
          and (t.tgrelid = $1 or t.tgrelid in (select b.relid from pg_partition_tree($1) b)
               or not exists (
                   select from msrepl.msreplication_objects o
                   where t.tgrelid = o.objid or t.tgrelid in (select b.relid from pg_partition_tree(o.objid) b)))
    loop
        execute command;
    end loop;
end
$msrepl$;
alter function msrepl.drop_triggers(regclass) owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.drop_triggers(regclass) from public;
comment on function msrepl.drop_triggers(regclass) is 'Drops our triggers of a table and of its partitions';

-- msrepl.open_link: opens the link of this session, or opens it again.
-- called by: ship_again, prepare_again, fetch_generated: at the first use of the link in a session, and when
--            it was lost
-- tables:    pg_foreign_server
-- holes:     owner, link, server, application_name
--
-- The connection is named and persistent: one per session that writes. Its application_name lets the wait
-- graph join it to this backend; its search path is that of our functions. dblink obeys no connect_timeout: a Publisher that takes the connection and
-- says nothing is waited for until the caller is cancelled.
create or replace function msrepl.open_link() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    reason text;
begin
    if 'msrepl' = any (msrepl_link.dblink_get_connections()) then
        perform msrepl_link.dblink_disconnect('msrepl');
    end if;
    perform msrepl_link.dblink_connect('msrepl', 'msrepl_publisher');
    perform msrepl_link.dblink_exec('msrepl', 'set search_path = pg_catalog, pg_temp; set application_name = ' || quote_literal('msrepl sub1' || ' ' || pg_backend_pid()));
exception when others then
    get stacked diagnostics reason = pg_exception_detail;
    if sqlstate = '2F003' and exists (select from pg_foreign_server where srvname = 'msrepl_publisher') then
        reason := 'it did not ask for the password of the link';
    else
        -- libpq's reason is in DETAIL and takes several lines
        reason := btrim(regexp_replace(
            concat_ws(': ', nullif(sqlerrm, 'could not establish connection'), nullif(reason, '')), E'\\s+', ' ', 'g'));
    end if;
    raise exception 'the Publisher cannot be reached over the link: %', reason
        using errcode = sqlstate,
              detail = json_build_object('kind', 'publisher_unreachable', 'number', 21054)::text,
              hint = 'Nothing is committed at either site. ' || case
        when reason ~ 'did not ask for the password' then
            'PostgreSQL lets only a superuser link without one: in the Publisher''s pg_hba.conf set the method of the link role to scram-sha-256 instead of trust, and reload it.'
        when reason ~ 'password authentication failed|is not permitted to log in' then
            'The link role or its password was changed at the Publisher: ALTER ROLE it back there, or unsubscribe and subscribe again.'
        when reason ~ 'permission denied for database' then
            'GRANT CONNECT ON DATABASE to the link role at the Publisher.'
        when reason ~ 'database .* does not exist' then
            'The Publisher''s database was dropped or renamed: ALTER SERVER ' || 'msrepl_publisher' || ' OPTIONS (SET dbname ...), or unsubscribe.'
        when reason ~ 'pg_hba.conf' then
            'Let the link role and this host in by a line of the Publisher''s pg_hba.conf, with scram-sha-256, and reload it.'
        when reason ~ 'could not translate host name' then
            'ALTER SERVER ' || 'msrepl_publisher' || ' OPTIONS (SET host ...) if the Publisher has moved.'
        when reason ~ 'too many|remaining connection slots' then
            'The Publisher has no connection left: raise max_connections there, or the limit of the link role.'
        when reason ~ 'starting up|shutting down|not yet accepting connections|recovery' then
            'Try again in a moment.'
        when sqlstate !~ '^(08|53|57)' then
            'The link is damaged: unsubscribe and subscribe again.'
        else 'Try again when the Publisher is up.'
    end;
end
$msrepl$;
alter function msrepl.open_link() owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.open_link() from public;
comment on function msrepl.open_link() is 'Opens the link of this session to the Publisher';

-- msrepl.link_is_lost: whether an error means that the link is gone, and the transaction at its other end.
-- called by: ship_again, prepare_branch, fetch_generated
-- tables:    none
-- holes:     owner, link
--
-- dblink takes a name without a connection for a connection string, and fails with any of several errors.
-- The rest are the link's own (class 08) and those with which a server ends a session.
create or replace function msrepl.link_is_lost(state text) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    return not 'msrepl' = any (coalesce(msrepl_link.dblink_get_connections(), array[]::text[]))
        or state ~ '^(08|57P|25P03|25P04)';
end
$msrepl$;
alter function msrepl.link_is_lost(text) owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.link_is_lost(text) from public;
comment on function msrepl.link_is_lost(text) is 'Whether an error means that the link is gone';

-- msrepl.drain_link: after a message that was cancelled or has failed, stops the statement at the Publisher and
-- empties the link; the victim of a deadlock across servers is told so.
-- called by: whoever sends over the link
-- tables:    pg_locks, pg_stat_activity
-- holes:     owner, link
--
-- A cancel does not travel: the statement would run on at the Publisher, and the link would answer
-- "another command is already in progress". The wait is bounded, because the cancel that brought us here
-- does not come twice: half a second for a Publisher that takes the cancel but whose backend does not react,
-- 30 s (dblink's own bound) for one that does not answer at all. Then the link is dropped, and the
-- transaction at its other end with it.
--
-- Whoever breaks a deadlock holds an advisory lock meanwhile and for a while after: (1836282473, a hash of this
-- transaction's beginning and pid). It tells why a statement was cancelled, and nothing of other failures. Any role
-- may take it: those count only that may settle branches.
drop function if exists msrepl.drain_link();
create or replace function msrepl.drain_link(was_cancelled boolean default true) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
set client_min_messages = error
as $msrepl$
declare
    was_empty boolean := false;
    is_empty boolean := false;
begin
    begin
        perform msrepl_link.dblink_cancel_query('msrepl');
        for turn in 1 .. 50 loop
            if msrepl_link.dblink_is_busy('msrepl') = 1 then
                perform pg_sleep(0.01);
            else
                -- an error counts as no row too, so only a second empty answer says that nothing is left
                is_empty := not exists (select from msrepl_link.dblink_get_result('msrepl', false) as t(tag text));
                exit when is_empty and was_empty;
                was_empty := is_empty;
            end if;
        end loop;
        if not (is_empty and was_empty) then
            perform msrepl_link.dblink_disconnect('msrepl');
        end if;
    exception when others then
        -- the link is gone altogether: the next message opens it
        if 'msrepl' = any (msrepl_link.dblink_get_connections()) then
            perform msrepl_link.dblink_disconnect('msrepl');
        end if;
    end;
    if not was_cancelled then
        return;
    end if;
    perform pg_stat_clear_snapshot();
    if exists (
        select from pg_locks as l join pg_stat_activity as a on a.pid = l.pid
        where l.locktype = 'advisory' and l.granted
          and l.classid = 1836282473 and l.objsubid = 2
          and l.objid = (hashfloat8(extract(epoch from now())::float8) # pg_backend_pid())::oid
          and l.database = (select d.oid from pg_database as d where d.datname = current_database())
          and has_function_privilege(a.usesysid, to_regprocedure('msrepl.fence_branch(text, text[])'), 'execute')
    ) then
        raise exception 'deadlock across servers: this transaction was chosen to be rolled back'
            using errcode = 'deadlock_detected',
                  detail = json_build_object('kind', 'deadlock', 'number', 0)::text,
                  hint = 'Nothing is committed at either site: roll back and try again.';
    end if;
end
$msrepl$;
alter function msrepl.drain_link(boolean) owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.drain_link(boolean) from public;
comment on function msrepl.drain_link(boolean) is 'Stops what runs over the link and empties it';

-- msrepl.query_link: sends a message whose last statement answers one value, and returns that as text.
-- called by: fetch_generated, explain_failure, prepare_again, fetch_stored, capture triggers of tables
--            that take rows back
-- tables:    none
-- holes:     owner, link
--
-- dblink() would do in one call, but it waits for the answer even when it is cancelled. Each statement's
-- answer has to be fetched, and then once more, or the link stays busy. After an error the link is empty.
create or replace function msrepl.query_link(command text) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
set client_min_messages = error
as $msrepl$
declare
    answer text;
    last text;
begin
    if msrepl_link.dblink_send_query('msrepl', command) <> 1 then
        raise exception '%', msrepl_link.dblink_error_message('msrepl') using errcode = 'connection_failure';
    end if;
    loop
        select t.answer into answer from msrepl_link.dblink_get_result('msrepl') as t(answer text);
        exit when not found;
        last := answer;
    end loop;
    return last;
exception
    when query_canceled then
        perform msrepl.drain_link();
        raise;
    when others then
        perform msrepl.drain_link(was_cancelled => false);
        raise;
end
$msrepl$;
alter function msrepl.query_link(text) owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.query_link(text) from public;
comment on function msrepl.query_link(text) is 'Sends a message over the link and returns what its last statement answers';

-- msrepl.shown_detail: what of a DETAIL of the Publisher's the caller may be told.
-- called by: explain_failure
-- tables:    msrepl.msreplication_objects; catalogs
-- holes:     owner
--
-- The link's role reads more than the application's. Columns that the latter may not select here are left out of
-- the Publisher's row; under row security all of them, since nobody can ask whether it would see that row. The
-- key and the versions are of the row that the caller has changed himself; that of a row which a trigger of the
-- Publisher's has changed is not. In its own words the server tells whole rows where a constraint is violated.
--
-- The role is the session's, or the one that it has taken: what is around is a SECURITY DEFINER function's.
create or replace function msrepl.shown_detail(state text, detail text) returns text
language plpgsql stable
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    reader constant name := coalesce(nullif(current_setting('role'), 'none'), session_user);
    facts json;
    relation oid;
    is_open boolean;
begin
    if detail is null or (select r.rolsuper from pg_roles as r where r.rolname = reader) then
        return detail;
    elsif not starts_with(detail, chr(123) || '"kind" : ') or not pg_input_is_valid(detail, 'json') then
        return case when state !~ '^23' then detail end;
    end if;
    facts := detail;
    if coalesce(facts ->> 'publisher_row', case facts ->> 'kind' when 'triggered_change' then facts ->> 'key' end) is null then
        return detail;
    end if;
    select c.oid, not c.relrowsecurity or r.rolbypassrls
                  or not c.relforcerowsecurity and pg_has_role(reader, c.relowner, 'usage')
    into relation, is_open
    from msrepl.msreplication_objects as o
    join pg_class as c on c.oid = o.objid
    join pg_roles as r on r.rolname = reader
    where facts ->> 'article' = case o.dest_schema when 'public' then o.article
                                else o.dest_schema || '.' || o.article end;
    if is_open and has_table_privilege(reader, relation, 'select') then
        return detail;
    end if;
    return (
        select json_object_agg(fact.key, case
            when fact.key = 'publisher_row' or fact.key = 'key' and facts ->> 'kind' = 'triggered_change' then (
                select json_object_agg(v.key, v.value)
                from json_each(fact.value) as v
                join pg_attribute as a on a.attrelid = relation and a.attname = v.key
                where is_open and json_typeof(fact.value) = 'object'
                  and has_column_privilege(reader, relation, a.attnum, 'select'))
            else fact.value end)
        from json_each(facts) as fact);
end
$msrepl$;
alter function msrepl.shown_detail(text, text) owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.shown_detail(text, text) from public;
comment on function msrepl.shown_detail(text, text) is 'What of a DETAIL of the Publisher''s the caller may be told';

-- msrepl.explain_failure: says what the failure of a message means, where the Publisher's own words do not.
-- called by: ship_again, prepare_branch, prepare_again, fetch_generated
-- tables:    at the Publisher: pg_locks, pg_prepared_xacts
-- holes:     owner
--
-- Raises an error in better words, or returns, and the caller raises its own.
create or replace function msrepl.explain_failure(
    state text, message text, detail text, context text, command text, hint text default null
) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    -- back to where the message began, so that the link can be asked; code of the Publisher's tables may have set
    -- its path with the commit of before
    retreat constant text := substring(command from '^rollback(?: to s[0-9]+)?');
    relation constant text := substring(context from E'in relation "([^\n]+)"');
    held json;
    shown text;
begin
    if msrepl.link_is_lost(state) then
        raise exception 'the link to the Publisher broke within the transaction: %', split_part(message, chr(10), 1)
            using errcode = 'connection_failure',
                  detail = json_build_object('kind', 'publisher_unreachable', 'number', 21054)::text,
                  hint = 'Nothing is committed at either site: roll back and try again.';
    elsif state = '23505' and message ~ '"branch_marker_pkey"' then
        raise exception 'this transaction was given up by recovery, or its id was used before'
            using errcode = 'transaction_rollback',
                  detail = json_build_object('kind', 'fenced', 'number', 0)::text,
                  hint = 'Roll back and begin another global transaction.';
    elsif state = '23505' and not starts_with(coalesce(detail, ''), chr(123)) then
        perform msrepl.raise_conflict('update_exists', '23505', 20515, null, null, null, null, null, message);
    elsif state = '22P02' and message ~ E'enum msrepl\\.\\S*mssync_shape_|^malformed record literal' then
        -- the Publisher's procedures were made for other rows than the triggers here send
        perform msrepl.raise_stale(o.dest_schema, o.article, 'Publisher')
        from msrepl.msreplication_objects as o, jsonb_each_text(o.sync_calls) as c
        where strpos(command, c.value) > 0;
    elsif state in ('25P01', '3B001') and starts_with(command, 'rollback to') then
        raise exception 'the transaction at the Publisher that belongs to this one has ended'
            using errcode = 'invalid_transaction_state',
                  detail = message,
                  hint = 'Its branch was prepared already, or reset_link was called: roll back and try again.';
    elsif state = '55P03' and relation is not null then
        begin
            -- a prepared branch has no pid, and shows its transaction in a lock of its own
            held := msrepl.query_link(retreat || format($query$;
                set search_path = pg_catalog, pg_temp;
                select json_build_object(
                    'waited', current_setting('lock_timeout'),
                    'article', coalesce(min(h.article) filter (where h.holder is not null), min(h.article), %1$L),
                    'holders', coalesce(json_agg(distinct h.holder) filter (where h.holder is not null), '[]'))
                from (
                    select n.nspname || '.' || t.relname,
                           coalesce('prepared branch ' || p.gid,
                                    'session ' || l.pid || coalesce(' (' || nullif(a.application_name, '') || ')', ''))
                    from pg_class as c
                    left join pg_index as i on i.indexrelid = c.oid
                    join pg_class as t on t.oid = coalesce(i.indrelid, c.oid)
                    join pg_namespace as n on n.oid = t.relnamespace
                    left join pg_locks as l
                        on l.locktype = 'relation' and l.relation = t.oid and l.granted
                        and l.database = (select oid from pg_database where datname = current_database())
                        and l.mode <> 'AccessShareLock' and l.pid is distinct from pg_backend_pid()
                    left join pg_locks as x
                        on x.locktype = 'transactionid' and x.virtualtransaction = l.virtualtransaction
                        and x.pid is null and l.pid is null and x.granted
                    left join pg_prepared_xacts as p on p.transaction = x.transactionid
                    left join pg_stat_activity as a on a.pid = l.pid
                    where c.relname = %1$L and c.relkind in ('r', 'p', 'i', 'I')
                ) as h(article, holder)$query$, relation))::json;
        exception when others then
            return; -- the Publisher's own words then
        end;
        raise exception 'a lock on % at the Publisher was not granted within %: %', held ->> 'article', held ->> 'waited',
                coalesce((select string_agg(h, ', ') || ' holds locks on it'
                          from json_array_elements_text(held -> 'holders') as h), 'its holder has ended meanwhile')
            using errcode = 'lock_not_available',
                  detail = json_build_object('kind', 'lock_timeout', 'number', 0, 'article', held ->> 'article',
                                             'holders', held -> 'holders')::text,
                  hint = 'Roll back to a savepoint or altogether, and try again. '
                      || 'A prepared branch holds its locks until its coordinator or recovery finishes it.';
    end if;
    shown := msrepl.shown_detail(state, detail);
    if shown is distinct from detail then
        raise exception using errcode = state, message = message, detail = coalesce(shown, ''), hint = coalesce(hint, '');
    end if;
end
$msrepl$;
alter function msrepl.explain_failure(text, text, text, text, text, text) owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.explain_failure(text, text, text, text, text, text) from public;
comment on function msrepl.explain_failure(text, text, text, text, text, text) is 'Says what the failure of a message to the Publisher means';

-- msrepl.ship_again: decides about a message that failed.
-- called by: capture triggers, flush
-- tables:    none
-- holes:     owner, link
--
-- The first message of a transaction may be repeated once over a new connection, because nothing of this
-- transaction can be lost at the Publisher yet. A later one never. Returns true if the repetition
-- succeeded, false if the caller's own error is to be raised.
create or replace function msrepl.ship_again(
    state text, message text, detail text, first boolean, command text, context text default null,
    hint text default null
) returns boolean
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if not first or not msrepl.link_is_lost(state) then
        perform msrepl.explain_failure(state, message, detail, context, command, hint);
        return false;
    end if;
    perform msrepl.open_link();
    begin
        perform msrepl_link.dblink_exec('msrepl', command);
        return true;
    exception
        when query_canceled then
            perform msrepl.drain_link();
            raise;
        when others then
            get stacked diagnostics detail = pg_exception_detail, context = pg_exception_context, hint = pg_exception_hint;
            perform msrepl.explain_failure(sqlstate, sqlerrm, detail, context, command, hint);
            raise;
    end;
end
$msrepl$;
alter function msrepl.ship_again(text, text, text, boolean, text, text, text) owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.ship_again(text, text, text, boolean, text, text, text) from public;
comment on function msrepl.ship_again(text, text, text, boolean, text, text, text) is 'Repeats the first message of a transaction, or says what its failure means';

-- msrepl.prepare_again: finds out over a new connection what became of a PREPARE whose answer is missing.
-- called by: prepare_branch, when the link was lost
-- tables:    at the Publisher: pg_prepared_xacts
-- holes:     owner, link
--
-- If the link was open and the branch is prepared, PREPARE has arrived: a yes. Else, if the whole branch is in
-- the message (lazy shipping), it is sent again: should the first one still be on its way, the branch marker
-- lets only one of them in. Returns the command tag.
create or replace function msrepl.prepare_again(gid text, whole boolean, message text, command text) returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    was_open constant boolean := 'msrepl' = any (coalesce(msrepl_link.dblink_get_connections(), array[]::text[]));
    detail text;
    context text;
    hint text;
begin
    perform msrepl.open_link();
    begin
        if was_open and msrepl.query_link(format(
            'set search_path = pg_catalog, pg_temp;'
            'select exists (select from pg_prepared_xacts where gid = %L and owner = session_user)', gid))::boolean
        then
            return 'PREPARE TRANSACTION';
        elsif whole then
            return msrepl_link.dblink_exec('msrepl', command);
        end if;
    exception
        when query_canceled then
            perform msrepl.drain_link();
            raise;
        when others then
            get stacked diagnostics detail = pg_exception_detail, context = pg_exception_context, hint = pg_exception_hint;
            if was_open and sqlstate = '55P03' then
                -- it may be the first PREPARE that holds the lock: not known, which is less than a no
                perform msrepl.explain_failure('08006', sqlerrm, null, null, command);
            end if;
            perform msrepl.explain_failure(sqlstate, sqlerrm, detail, context, command, hint);
            raise;
    end;
    perform msrepl.explain_failure('08006', message, null, null, command);
    return null;
end
$msrepl$;
alter function msrepl.prepare_again(text, boolean, text, text) owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.prepare_again(text, boolean, text, text) from public;
comment on function msrepl.prepare_again(text, boolean, text, text) is 'Finds out what became of a PREPARE whose answer is missing';

-- msrepl.flush: sends the calls that wait in the branch marker.
-- called by: capture triggers (lazy shipping, referential actions)
-- tables:    msrepl.branch_marker
-- holes:     owner, link
create or replace function msrepl.flush() returns void
language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $msrepl$
declare
    marker tid := nullif(current_setting('msrepl.marker', true), '')::tid;
    sent integer;
    queued text;
    command text;
    detail text;
    context text;
    hint text;
begin
    select m.calls + 1, m.pending into sent, queued
    from msrepl.branch_marker as m
    where m.ctid = marker and m.xid = pg_current_xact_id_if_assigned();
    if queued is null then
        return;
    end if;
    update msrepl.branch_marker as m set calls = sent, pending = null where m.ctid = marker
    returning set_config('msrepl.marker', m.ctid::text, true)::tid into marker;
    command := case when sent = 1
            then 'rollback;begin isolation level ' || current_setting('transaction_isolation')
            else 'rollback to s' || sent - 1 end
        || ';' || queued || ';savepoint s' || sent;
    begin
        perform msrepl_link.dblink_exec('msrepl', command);
    exception
        when query_canceled then
            perform msrepl.drain_link();
            raise;
        when others then
            get stacked diagnostics detail = pg_exception_detail, context = pg_exception_context, hint = pg_exception_hint;
            if not msrepl.ship_again(sqlstate, sqlerrm, detail, sent = 1, command, context, hint) then
                raise;
            end if;
    end;
end
$msrepl$;
alter function msrepl.flush() owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.flush() from public;
comment on function msrepl.flush() is 'Sends the calls that wait';

-- msrepl.reset_link: drops what the link's remote transaction holds.
-- called by: the coordinator after a local ROLLBACK; prepare_publisher when nothing is to be prepared
-- tables:    none
-- holes:     owner, link
--
-- An application role may execute it, as prepare_publisher and flush_log. Called at the wrong
-- time it makes the next statement or the vote fail: both name a savepoint that is gone.
create or replace function msrepl.reset_link() returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if 'msrepl' = any (msrepl_link.dblink_get_connections()) then
        perform msrepl_link.dblink_exec('msrepl', 'rollback');
    end if;
exception
    when query_canceled then
        perform msrepl.drain_link();
        raise;
    when others then
        -- a link that cannot even roll back is closed: its transaction ends with it
        perform msrepl_link.dblink_disconnect('msrepl');
end
$msrepl$;
alter function msrepl.reset_link() owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.reset_link() from public;
comment on function msrepl.reset_link() is 'Rolls back what the link has open at the Publisher';

-- msrepl.fetch_generated: a block of generated values from the Publisher, larger than the last one.
-- called by: trg_mssync_gen_<table>
-- tables:    msrepl.branch_marker
-- holes:     owner
--
-- Sizes 1, 3, 7 ... 64. The message first brings the remote transaction to where it should be, because an
-- error that was caught leaves it failed.
create or replace function msrepl.fetch_generated(generator text, size_before integer) returns jsonb
language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $msrepl$
declare
    size constant integer := least(size_before * 2 + 1, 64);
    sent integer;
    command text;
    made text;
    detail text;
    context text;
    hint text;
begin
    select m.calls into sent
    from msrepl.branch_marker as m
    where m.ctid = nullif(current_setting('msrepl.marker', true), '')::tid
      and m.xid = pg_current_xact_id_if_assigned();
    sent := coalesce(sent, 0);
    command := case when sent = 0 then 'rollback' else 'rollback to s' || sent end
        || ';select ' || generator || '(' || size || ')::text';
    for attempt in 1 .. 2 loop
        begin
            made := msrepl.query_link(command);
            exit;
        exception when others then
            -- as in ship_again: only what nothing depends on yet is asked for again
            if sent > 0 or attempt = 2 or not msrepl.link_is_lost(sqlstate) then
                get stacked diagnostics detail = pg_exception_detail, context = pg_exception_context, hint = pg_exception_hint;
                perform msrepl.explain_failure(sqlstate, sqlerrm, detail, context, command, hint);
                raise;
            end if;
        end;
        perform msrepl.open_link();
    end loop;
    return jsonb_build_object('size', size, 'rows', made::jsonb);
end
$msrepl$;
alter function msrepl.fetch_generated(text, integer) owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.fetch_generated(text, integer) from public;
comment on function msrepl.fetch_generated(text, integer) is 'Values that the Publisher generates, a block at a time';

-- msrepl.fetch_stored: what the Publisher stored otherwise than it was sent, asked for on its own.
-- called by: capture triggers after a call was repeated, send_held
-- tables:    none
-- holes:     owner
create or replace function msrepl.fetch_stored() returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    return msrepl.query_link($query$select current_setting('msrepl.stored', true)$query$);
end
$msrepl$;
alter function msrepl.fetch_stored() owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.fetch_stored() from public;
comment on function msrepl.fetch_stored() is 'What the Publisher stored otherwise than it was sent';

-- msrepl.renew_version, msrepl.renew_version_unless_moved: an inserted row has a version that no row has had.
-- called by: BEFORE INSERT row trigger of every subscribed table; of a partitioned one, the second
-- tables:    the row in hand only
-- holes:     owner, function, kept, comment
--
-- Whatever the statement says: with the version of a row that was deleted, copies of that row at other sites
-- would pass the check; and what is held could not be told apart (send_held). A row that an UPDATE moves to
-- another partition is inserted there, and keeps what it was stamped with (trg_mssync_ver_<table>): that is
-- sealed with the transaction it was made in, so that no older version can be taken for it.
create or replace function "msrepl"."renew_version"() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    new.msrepl_tran_version := gen_random_uuid();
    return new;
end
$msrepl$;
alter function "msrepl"."renew_version"() owner to "msrepl_owner_8d9001d32c6a";
revoke all on function "msrepl"."renew_version"() from public;
comment on function "msrepl"."renew_version"() is 'Gives an inserted row a version of its own';

-- msrepl.renew_version, msrepl.renew_version_unless_moved: an inserted row has a version that no row has had.
-- called by: BEFORE INSERT row trigger of every subscribed table; of a partitioned one, the second
-- tables:    the row in hand only
-- holes:     owner, function, kept, comment
--
-- Whatever the statement says: with the version of a row that was deleted, copies of that row at other sites
-- would pass the check; and what is held could not be told apart (send_held). A row that an UPDATE moves to
-- another partition is inserted there, and keeps what it was stamped with (trg_mssync_ver_<table>): that is
-- sealed with the transaction it was made in, so that no older version can be taken for it.
create or replace function "msrepl"."renew_version_unless_moved"() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if new.msrepl_tran_version = (left(new.msrepl_tran_version::text, 18) || left(md5(left(new.msrepl_tran_version::text, 18) || extract(epoch from now()) || ' ' || pg_backend_pid()), 16))::uuid then
        return new;
    end if;
    new.msrepl_tran_version := gen_random_uuid();
    return new;
end
$msrepl$;
alter function "msrepl"."renew_version_unless_moved"() owner to "msrepl_owner_8d9001d32c6a";
revoke all on function "msrepl"."renew_version_unless_moved"() from public;
comment on function "msrepl"."renew_version_unless_moved"() is 'Gives an inserted row a version of its own';

-- msrepl.held_row: rows of statements that wait until no statement is open any more, a set for each statement.
-- called by: capture triggers of tables that may hold, send_held
-- tables:    itself
-- holes:     owner
--
-- place      number of the statement that changed the rows, among those that were open together
-- relid      the subscribed table
-- old_links  identify the rows as they were (table, key and version); null if they were inserted
-- new_links  identify the rows as they are; null if they were deleted
-- old_keys   key and version of the rows as they were, for an update
-- old_rows   the rows as they were
-- new_rows   the rows as they are
-- moved      by an update, whether values changed that foreign keys with actions refer to
--
-- A table may hold if a foreign key leads to it or from it, or if a unique key of it is checked at the end of
-- a statement: what one statement does must then arrive in another order than its AFTER triggers fire in.
--
-- A set lives no longer than the statement that brought it; the table is logged all the same, see
-- docs/crashes.md. No index: the setting msrepl.held_rows
-- says where a transaction's sets are, and under SERIALIZABLE the pages of an index would make unrelated
-- transactions conflict. The settings are anybody's to change: a set that was held and not sent would be at this
-- site only. So each refers to a row that is never there, which PostgreSQL looks for at the transaction's end and
-- only for sets that are left: neither index nor set is read for it.
create table if not exists msrepl.never (never boolean primary key check (not never));
create table if not exists msrepl.held_row (
    xid xid8 not null,
    place integer not null,
    relid oid not null,
    old_links uuid[],
    new_links uuid[],
    old_keys text[],
    old_rows text[],
    new_rows text[],
    moved boolean[],
    never boolean not null default true
        constraint held_rows_are_sent references msrepl.never deferrable initially deferred
);
do $msrepl$
begin
    -- one of an earlier version
    if (select relpersistence = 'u' from pg_catalog.pg_class where oid = 'msrepl.held_row'::pg_catalog.regclass) then
        alter table msrepl.held_row set logged;
    end if;
    if not exists (select from pg_catalog.pg_constraint
                   where conrelid = 'msrepl.held_row'::pg_catalog.regclass and conname = 'held_rows_are_sent') then
        alter table msrepl.held_row
            add column never boolean not null default true
                constraint held_rows_are_sent references msrepl.never deferrable initially deferred;
    end if;
end
$msrepl$;
alter table msrepl.never owner to "msrepl_owner_8d9001d32c6a";
alter table msrepl.held_row owner to "msrepl_owner_8d9001d32c6a";
revoke all on msrepl.never, msrepl.held_row from public;
comment on table msrepl.never is 'Has no rows: what refers to it must be gone when its transaction ends';
comment on table msrepl.held_row is 'Rows of statements that wait until no statement is open any more';

-- msrepl.send_held: sends the net effect of what is held, children before their parents.
-- called by: release_held; prepare_branch, should anything be left
-- tables:    msrepl.held_row, msrepl.msreplication_objects, msrepl.branch_marker
-- holes:     owner, own_branch, publisher_branch, sites, sites_text
--
-- Within one statement a referential action or a user's trigger may change a row again, or delete it, in
-- an order that AFTER triggers do not show; so the links from version to version are followed, and each row
-- is sent once, from what it was before the statement to what it is after it.
--
-- Deletes and updates go to children first, while the Publisher's foreign keys are deferred: when a parent
-- changes there, nothing that the Subscriber holds refers to it any more, so the Publisher's own referential
-- action finds no row. What it would still find, the Subscriber does not hold, and the procedure refuses.
-- Tables that refer to themselves or to each other first update what nothing refers to, then delete, then
-- update the rest; those that refer to each other in the reverse order in which the statements began.
create or replace function msrepl.send_held() returns void
language plpgsql
set search_path = pg_catalog, pg_temp set enable_seqscan = off
set enable_nestloop = off
as $msrepl$
declare
    marker tid := nullif(current_setting('msrepl.marker', true), '')::tid;
    transaction text;
    sites constant text[] := nullif(current_setting('msrepl.participants', true), '');
    held constant tid[] :=
        string_to_array(coalesce(current_setting('msrepl.held_rows', true), ''), ' ')::tid[];
    first text := 'null,null,';
    step record;
    message text;
    sent integer := 0;
    queued text;
    taking text[] := array[]::text[];
    keys text[] := array[]::text[];
    key text;
    stored jsonb;
begin
    if cardinality(held) = 0 then
        return;
    end if;
    perform set_config('msrepl.held_rows', '', true);
    if marker is null then
        transaction := msrepl.name_transaction(
            (select min(h.relid)::regclass::text from msrepl.held_row as h where h.ctid = any (held)));
        first := quote_literal(transaction || coalesce(':' || sites[1], ':pub'))
            || ',' || coalesce(quote_literal(sites), 'array[''pub'', ''sub1'']') || ',';
    end if;
    for step in
        with recursive sets as (
            delete from msrepl.held_row as h where h.ctid = any (held) and h.xid = pg_current_xact_id()
            returning h.*
        ), gone as materialized (
            select s.relid, s.place, r.*
            from sets as s, unnest(s.old_links, s.new_links, s.old_keys, s.old_rows, s.new_rows, s.moved)
                as r(old_link, new_link, old_key, old_row, new_row, moved)
        ), walk as (
            select g.relid, g.place, g.old_key, g.old_row, g.new_link, g.new_row, g.moved
            from gone as g
            where not exists (select from gone as p where p.new_link = g.old_link)
          union all
            select w.relid, greatest(w.place, g.place), w.old_key, w.old_row, g.new_link, g.new_row,
                   coalesce(w.moved, false) or coalesce(g.moved, false)
            from walk as w
            join gone as g on g.old_link = w.new_link
        ), net as (
            select w.relid, w.place, w.old_key, w.old_row, w.new_row, w.moved,
                   case when w.old_row is null then 'ins' when w.new_link is null then 'del' else 'upd' end as operation
            from walk as w
            where (w.old_row is not null or w.new_link is not null)
              and not exists (select from gone as g where g.old_link = w.new_link)
        ), changed as materialized (
            select o.* from msrepl.msreplication_objects as o where o.objid in (select n.relid from net as n)
        ), above(child, parent) as (
            select c.objid, p.objid from changed as c join changed as p on p.objid = any (c.parents)
          union
            select a.child, p.objid
            from above as a join changed as c on c.objid = a.parent join changed as p on p.objid = any (c.parents)
        ), placed as materialized (
            select c.*,
                   (select count(*) from above as a where a.child = c.objid and a.parent <> c.objid) as rank,
                   exists (select from above as a where a.child = c.objid and a.parent = c.objid) as cyclic,
                   exists (select from above as a join above as b on b.child = a.parent and b.parent = a.child
                           where a.child = c.objid and a.parent <> c.objid) as entangled
            from changed as c
        ), calls as (
            select n.relid, n.operation, case when s.entangled and n.operation <> 'ins' then n.place end as wave,
                   s.cyclic and n.operation = 'upd' and coalesce(n.moved, false) as last,
                   array_agg(n.old_key)::text as old_keys, array_agg(n.old_row)::text as old_rows,
                   array_agg(n.new_row)::text as new_rows
            from net as n
            join placed as s on s.objid = n.relid
            group by 1, 2, 3, 4
        )
        select s.sync_calls ->> c.operation as call, c.operation, s.write_back, s.dest_schema, s.article,
               c.old_keys, c.old_rows, c.new_rows
        from calls as c
        join placed as s on s.objid = c.relid
        order by c.operation = 'ins',
                 case when c.operation = 'ins' then s.rank else -s.rank end,
                 c.last,
                 case when s.cyclic then c.operation = 'del' else c.operation = 'upd' end,
                 c.wave desc,
                 c.relid
    loop
        message := coalesce(message || ';', '') || step.call || first || case step.operation
            when 'ins' then quote_literal(step.new_rows)
            when 'upd' then quote_literal(step.old_keys) || ',' || quote_literal(step.new_rows)
            else quote_literal(step.old_rows) end || ')';
        first := 'null,null,';
        sent := sent + 1;
        key := format('%s %s.%s', step.operation, step.dest_schema, step.article);
        if step.write_back is not null and step.operation <> 'del' and key <> all (keys) then
            taking := taking || step.write_back;
            keys := keys || key;
        end if;
    end loop;
    if sent = 0 then
        return;
    end if;
    if cardinality(taking) > 0 then
        message := 'set local msrepl.stored = '''';' || message;
    end if;
    if sent > 1 then
        message := 'call msrepl.defer_keys(true);' || message || ';call msrepl.defer_keys(false)';
    end if;
    if marker is null then
        insert into msrepl.branch_marker as m (gid, xid, participants, pending)
        values (transaction || ':sub1', pg_current_xact_id(), coalesce(sites, array['pub', 'sub1']), message)
        on conflict (xid) do nothing
        returning set_config('msrepl.marker', m.ctid::text, true)::tid, m.pending into marker, queued;
    else
        update msrepl.branch_marker as m set pending = coalesce(m.pending || ';', '') || message
        where m.ctid = marker and m.xid = pg_current_xact_id() and not m.prepared
        returning set_config('msrepl.marker', m.ctid::text, true)::tid, m.pending into marker, queued;
    end if;
    if marker is null then
        perform msrepl.raise_uncoordinated(step.article);
    end if;
    if cardinality(taking) = 0 and current_setting('msrepl.shipping', true) = 'lazy' and length(queued) <= 16384 then
        return;
    end if;
    perform msrepl.flush();
    if cardinality(taking) > 0 then
        stored := nullif(msrepl.fetch_stored(), '')::jsonb;
        for place in 1 .. cardinality(taking) loop
            if jsonb_array_length(stored -> keys[place]) > 0 then
                execute format('select %s($1)', taking[place]) using stored -> keys[place];
            end if;
        end loop;
    end if;
end
$msrepl$;
alter function msrepl.send_held() owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.send_held() from public;
comment on function msrepl.send_held() is 'Sends the net effect of what is held';

-- msrepl.enter_statement: notes a statement that begins on a table that may hold.
-- called by: BEFORE STATEMENT triggers of those tables
-- tables:    none
-- holes:     owner
--
-- msrepl.open_statements: how many have begun, then a semicolon, relation, operation and number of each that
-- is still open. A referential action opens its statement before the statement that caused it fires its AFTER
-- STATEMENT trigger, so the list is empty exactly when a statement is done with all its actions and nested
-- triggers. A user who tampers with it makes calls go too early, which the Publisher refuses, or too late,
-- which prepare_branch makes up for; nothing is lost.
create or replace function msrepl.enter_statement() returns trigger
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    state constant text := coalesce(nullif(current_setting('msrepl.open_statements', true), ''), '0');
    number constant integer := split_part(state, ';', 1)::integer + 1;
begin
    perform set_config('msrepl.open_statements',
        number || substr(state, strpos(state || ';', ';')) || ';' || tg_relid || ' ' || tg_op || ' ' || number, true);
    return null;
end
$msrepl$;
alter function msrepl.enter_statement() owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.enter_statement() from public;
comment on function msrepl.enter_statement() is 'Notes a statement that begins';

-- msrepl.leave_statement: notes a statement that ends, and says whether its rows must be held.
-- called by: capture triggers of tables that may hold, close_statement
-- tables:    msrepl.held_row (its constraint)
-- holes:     owner
--
-- Returns the number of the statement, under which the caller holds its rows, or 0 if it may send them: no
-- other statement is open, and nothing is held. A statement that has begun first ends first, among those of
-- the same kind on the same table.
create or replace function msrepl.leave_statement(relation oid, operation text, ends boolean, may_act boolean)
returns integer
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    state constant text := coalesce(current_setting('msrepl.open_statements', true), '');
    entry constant text := substring(state from ';' || relation || ' ' || operation || ' [0-9]+');
    others constant text := overlay(state placing '' from strpos(state, entry) for length(entry));
begin
    if ends and entry is not null then
        perform set_config('msrepl.open_statements', others, true);
    end if;
    if strpos(coalesce(others, state), ';') = 0 and not may_act
        and coalesce(current_setting('msrepl.held_rows', true), '') = ''
    then
        return 0;
    end if;
    -- whatever the application has said: what is held now is looked for at the end
    set constraints msrepl.held_rows_are_sent deferred;
    return coalesce(substring(entry from '[0-9]+$')::integer, 1);
end
$msrepl$;
alter function msrepl.leave_statement(oid, text, boolean, boolean) owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.leave_statement(oid, text, boolean, boolean) from public;
comment on function msrepl.leave_statement(oid, text, boolean, boolean) is 'Notes a statement that ends, and says whether its rows must be held';

-- msrepl.release_held: notes a set of rows that is held, and sends what is held once no statement is open.
-- called by: capture triggers of tables that may hold, close_statement
-- tables:    none here; see send_held
-- holes:     owner
create or replace function msrepl.release_held(held tid) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if held is not null then
        perform set_config('msrepl.held_rows',
            concat_ws(' ', nullif(current_setting('msrepl.held_rows', true), ''), held), true);
    end if;
    if strpos(coalesce(current_setting('msrepl.open_statements', true), ''), ';') = 0 then
        perform set_config('msrepl.open_statements', '', true);
        perform msrepl.send_held();
    end if;
end
$msrepl$;
alter function msrepl.release_held(tid) owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.release_held(tid) from public;
comment on function msrepl.release_held(tid) is 'Notes rows that are held, and sends them once no statement is open';

-- msrepl.close_statement: ends a statement whose rows an AFTER ROW trigger has captured.
-- called by: AFTER STATEMENT triggers of tables that may hold and have AFTER ROW triggers of the user's
-- tables:    none here; see send_held
-- holes:     owner
create or replace function msrepl.close_statement() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    perform msrepl.leave_statement(tg_relid, tg_op, true, true);
    perform msrepl.release_held(null);
    return null;
end
$msrepl$;
alter function msrepl.close_statement() owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.close_statement() from public;
comment on function msrepl.close_statement() is 'Ends a statement whose rows an AFTER ROW trigger has captured';

-- msrepl.make_stale: lets no change of a subscribed table through until its triggers are made again.
-- called by: ddl_guard, twopc.subscriber.subscription
-- tables:    msrepl.msreplication_objects
-- holes:     owner
--
-- Said again, it leaves another xmin: whoever has compared rows meanwhile sees that they may have changed since.
create or replace function msrepl.make_stale(relation oid, reason text) returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
#variable_conflict use_column
declare
    article msrepl.msreplication_objects;
    routine oid;
begin
    select o.* into article from msrepl.msreplication_objects as o where o.objid = $1;
    update msrepl.msreplication_objects as o set stale = coalesce(o.stale, $2) where o.objid = $1;
    if article.stale is not null then
        return;
    end if;
    foreach routine in array article.routines loop
        execute format(
            'create or replace function %s() returns trigger language plpgsql security definer '
            'set search_path = pg_catalog, pg_temp as %L',
            routine::regproc,
            format('begin perform msrepl.raise_stale(%L, %L, ''Subscriber''); return null; end',
                   article.dest_schema, article.article));
    end loop;
end
$msrepl$;
alter function msrepl.make_stale(oid, text) owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.make_stale(oid, text) from public;
comment on function msrepl.make_stale(oid, text) is 'Lets no change of a subscribed table through until its triggers are made again';

-- msrepl.refuse_partition: what a partition does that has no triggers of the subscription yet.
-- called by: BEFORE STATEMENT trigger of the partition, see close_partition; arguments: schema and name of the article
-- tables:    none
-- holes:     owner
create or replace function msrepl.refuse_partition() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    perform msrepl.raise_stale(tg_argv[0], tg_argv[1], 'Subscriber');
    return null;
end
$msrepl$;
alter function msrepl.refuse_partition() owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.refuse_partition() from public;
comment on function msrepl.refuse_partition() is 'Refuses changes of a partition that has no triggers of the subscription yet';

-- msrepl.close_partition: lets nobody but agents write a new partition until the table's triggers are made again.
-- called by: ddl_guard
-- tables:    the partition
-- holes:     owner, caller, trigger
--
-- A statement that names the partition fires the statement triggers of the partition and no others. With the rights
-- of an administrator: the partition may be anybody's.
create or replace function msrepl.close_partition(relation regclass, dest_schema text, article text) returns void
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    execute format(
        'create or replace trigger %I before insert or update or delete or truncate on %s '
        'for each statement execute function msrepl.refuse_partition(%L, %L)', '!trg_mssync_partition', $1, $2, $3);
end
$msrepl$;
alter function msrepl.close_partition(regclass, text, text) owner to current_user;
revoke all on function msrepl.close_partition(regclass, text, text) from public;
grant execute on function msrepl.close_partition(regclass, text, text) to "msrepl_owner_8d9001d32c6a";
comment on function msrepl.close_partition(regclass, text, text) is 'Lets nobody but agents write a new partition';

-- msrepl.ddl_guard: after DDL, or before it rewrites a table, replaces the trigger functions of a table that
-- they no longer fit by ones that say so, and refuses DDL that would let changes pass unseen.
-- called by: event triggers of this database (ddl_guard_triggers.sql)
-- tables:    msrepl.msreplication_objects; catalogs
-- holes:     owner
--
-- The check costs nothing at run time: stale triggers simply have other functions, in the transaction of the
-- DDL itself, so they come and go with it. An article without a structure is being worked on. A rewrite may give
-- rows other values under the versions that they have; see the Publisher's.
create or replace function msrepl.ddl_guard() returns event_trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    touched oid[];
    missing text;
    article record;
begin
    if to_regclass('msrepl.msreplication_objects') is null then
        return;
    end if;
    -- a snapshot does not show what was subscribed since; the index does, by a failure (40001)
    if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
        begin
            insert into msrepl.msreplication_objects (objid, dest_schema, article, created_table, added_version, sync_calls)
            select t, '', t, false, false, '{}'
            from unnest(coalesce(msrepl.touched_tables(tg_event), array(select c.oid from pg_class as c where c.relkind in ('r', 'p')))) as t
            order by t
            on conflict do nothing;
            raise exception 'undone';
        exception when raise_exception then null;
        end;
    end if;
    -- nothing is left to guard, or the DDL is our own
    if (select bool_and(o.structure <> '') from msrepl.msreplication_objects as o) is not true
    then
        return;
    end if;
    -- neither a default nor a type: rows stay as they are
    if tg_event = 'table_rewrite' and pg_event_trigger_table_rewrite_reason() & 6 = 0 then
        return;
    end if;
    -- what is written to a table in its place would stay here
    select o.dest_schema, o.article into article
    from msrepl.msreplication_objects as o
    join pg_namespace as n on n.nspname = o.dest_schema
    join pg_class as c on c.relnamespace = n.oid and c.relname = o.article and c.relkind in ('r', 'p', 'f')
    where c.oid <> o.objid
    limit 1;
    if found then
        raise exception 'no other table may have the name of subscribed table %.%', article.dest_schema, article.article
            using errcode = 'dependent_objects_still_exist',
                  hint = 'A table that was renamed goes by its new name after: twopc regenerate. Otherwise unsubscribe first (twopc unsubscribe).';
    end if;
    touched := msrepl.touched_tables(tg_event);
    for article in
        select o.objid, o.dest_schema, o.article, o.fingerprints,
               c.oid is null as dropped,
               tg_event = 'table_rewrite'
                   or msrepl.table_structure(o.objid) is distinct from o.structure as altered
        from msrepl.msreplication_objects as o
        left join pg_class as c on c.oid = o.objid
        where touched is null or o.objid = any (touched)
    loop
        if not article.dropped and not exists (
            select from pg_attribute as a
            where a.attrelid = article.objid and a.attname = 'msrepl_tran_version' and not a.attisdropped
              and a.attnotnull and a.atttypid = 'uuid'::regtype
        ) then
            raise exception 'column msrepl_tran_version of subscribed table %.% cannot be changed or dropped (21080)',
                article.dest_schema, article.article
                using errcode = 'dependent_objects_still_exist', hint = 'Unsubscribe first: twopc unsubscribe.';
        end if;
        -- a partition may go with its triggers
        missing := msrepl.missing_fingerprint(article.objid, article.fingerprints);
        if not article.dropped and missing is not null then
            raise exception '% cannot be altered, disabled or dropped: changes of subscribed table %.% would pass unseen',
                missing, article.dest_schema, article.article
                using errcode = 'dependent_objects_still_exist',
                      hint = 'Unsubscribe first (twopc unsubscribe); or SET session_replication_role = replica for changes that are not for replication.';
        end if;
        if exists (select from pg_inherits as i where i.inhrelid = article.objid) then
            raise exception 'subscribed table %.% cannot have a parent: changes made through it would pass unseen',
                article.dest_schema, article.article
                using errcode = 'dependent_objects_still_exist', hint = 'Unsubscribe first: twopc unsubscribe.';
        end if;
        continue when not article.altered;
        perform msrepl.close_partition(p.relid, article.dest_schema, article.article)
        from pg_partition_tree(article.objid) as p
        where p.level > 0 and not exists (
            select from pg_trigger as t
            join pg_proc as f on f.oid = t.tgfoid and f.pronamespace = 'msrepl'::regnamespace
            where t.tgrelid = p.relid and t.tgparentid = 0);
        perform msrepl.make_stale(
            article.objid, case when article.dropped then 'the table was dropped' else 'the table was altered' end);
    end loop;
end
$msrepl$;
alter function msrepl.ddl_guard() owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.ddl_guard() from public;
comment on function msrepl.ddl_guard() is 'Replaces trigger functions that no longer fit their table by ones that say so';

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

-- msrepl.prepare_branch: sends what waits and prepares the Publisher's branch.
-- called by: prepare_publisher, and refuse_unprepared for any client
-- tables:    msrepl.branch_marker
-- holes:     owner, link, held, own_branch
--
-- Returns how many calls were sent; 0 if nothing was captured in this transaction: then there is no branch at
-- the Publisher.
-- as_whole: for the transaction as a whole; 0 too, and nothing was asked, where a savepoint could be gone
-- back to: then the Publisher would have prepared what is taken back here.
-- A vote is a command tag and nothing else: PREPARE TRANSACTION of a failed transaction succeeds with the
-- tag ROLLBACK, and NULL must not pass for yes. After any error the branch may still be prepared there
-- (cancelled, or the link lost with the answer): whoever called rolls it back at the Publisher too.
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
    -- what is prepared there must not be forgotten here; a coordinator's COMMIT PREPARED must not either
    if current_setting('synchronous_commit') not in ('on', 'remote_apply') then
        perform set_config('synchronous_commit', 'on', $3);
    end if;
    -- the row says so from here on, and goes back with a savepoint: whatever is changed after it is refused
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
alter function msrepl.prepare_branch(text, text[], boolean) owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.prepare_branch(text, text[], boolean) from public;
comment on function msrepl.prepare_branch(text, text[], boolean) is 'Sends what waits and prepares the branch at the Publisher';

-- msrepl.flush_log: returns when every commit that could be seen here is durable, at a synchronous standby too.
-- called by: the coordinator, behind a last agent's COMMIT; the resolver
-- tables:    none
-- holes:     owner
--
-- Whatever the COMMIT itself has waited for: an application's own trigger may weaken it behind our last word.
create or replace function msrepl.flush_log() returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $msrepl$
begin
    if current_setting('synchronous_standby_names') <> '' then
        if current_setting('synchronous_commit') not in ('on', 'remote_apply') then
            perform set_config('synchronous_commit', 'on', true);
        end if;
        perform pg_logical_emit_message(true, 'msrepl', '', true);
    elsif pg_current_wal_flush_lsn() < pg_current_wal_insert_lsn() then
        perform pg_logical_emit_message(false, 'msrepl', '', true);
    end if;
end
$msrepl$;
alter function msrepl.flush_log() owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.flush_log() from public;
comment on function msrepl.flush_log() is 'Returns when every commit that could be seen is durable';

-- msrepl.prepare_publisher: the Publisher's vote, for a coordinator.
-- called by: the coordinator, in the same message as the local PREPARE TRANSACTION or COMMIT
-- tables:    msrepl.branch_marker
-- holes:     votes, begins, owner, own_branch, sites
--
-- calls is 0 on return if nothing was captured in this transaction; its own branch has a marker all the same,
-- which takes no calls: whoever guesses its place behind the vote would be heard at the Publisher, and not prepared.
--
-- proof: the coordinator's, by which it alone can ask: no function either, which could read the proof in the
-- message that it is called by. A vote that the application could ask for might be rolled back here to a
-- savepoint, and would stay prepared at the Publisher.
-- participants: all branches, this Subscriber's at the Publisher first; given where there are several
-- Subscribers (any other default would be parsed for every transaction), and part of what is proven. A
-- Subscriber's link is a session of its own at the Publisher, and so is its branch; the marker of a transaction
-- that has none names the others only: it decides nothing for that one.
drop procedure if exists msrepl.prepare_publisher(text, integer, text[]);
create or replace procedure msrepl.prepare_publisher(
    gid text, inout calls integer, proof text, participants text[] default null)
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $msrepl$
declare
    context text;
    sites constant text[] := coalesce($4, array['pub', 'sub1']);
begin
    get diagnostics context = pg_context;
    if strpos(context, E'\n') > 0 then
        raise exception 'prepare_publisher: only the coordinator calls it, and not from within a statement'
            using errcode = 'insufficient_privilege',
                  hint = 'Commit a global transaction by its coordinator, as topology.transaction(...) does.';
    end if;
-- fragment: FOUND if the coordinator of a global transaction itself says what is said.
-- called by: rendered into name_transaction and prepare_publisher (a function of its own would cost twice as much)
-- tables:    msrepl.coordinator_key
-- holes:     what, gid, proof
--
-- what: `begin`, which the application's session may know as long as its transaction lasts, or `vote` and all
-- branches, which it never learns in time; either holds for this session alone. The key stands at both ends, so that
-- nobody can make a proof of a longer text.
    perform from msrepl.coordinator_key as k
    where k.key_id = split_part($3, '.', 1) and starts_with($1, 'twopc:' || k.coordinator || ':')
      and split_part($3, '.', 2) = encode(sha256(k.key || convert_to('vote ' || array_to_string(sites, ',') || ' ' || $1 || ' ' || pg_backend_pid(), 'UTF8') || k.key), 'hex');
    if not found then
        if $1 is null then
            raise exception 'prepare_publisher: the id of the global transaction is missing'
                using errcode = 'null_value_not_allowed';
        end if;
        raise exception 'prepare_publisher: only the coordinator of transaction % can ask for its votes', $1
            using errcode = 'insufficient_privilege',
                  hint = 'Commit a global transaction by its coordinator, as topology.transaction(...) does.';
    end if;
    $2 := msrepl.prepare_branch($1, sites, false);
    if $2 > 0 then
        return;
    end if;
-- fragment: FOUND if the coordinator of a global transaction itself says what is said.
-- called by: rendered into name_transaction and prepare_publisher (a function of its own would cost twice as much)
-- tables:    msrepl.coordinator_key
-- holes:     what, gid, proof
--
-- what: `begin`, which the application's session may know as long as its transaction lasts, or `vote` and all
-- branches, which it never learns in time; either holds for this session alone. The key stands at both ends, so that
-- nobody can make a proof of a longer text.
    perform from msrepl.coordinator_key as k
    where k.key_id = split_part(current_setting('msrepl.proof', true), '.', 1) and starts_with($1, 'twopc:' || k.coordinator || ':')
      and split_part(current_setting('msrepl.proof', true), '.', 2) = encode(sha256(k.key || convert_to('begin' || ' ' || $1 || ' ' || pg_backend_pid(), 'UTF8') || k.key), 'hex');
    if not found or current_setting('msrepl.gid', true) is distinct from $1 then
        raise exception 'transaction % was ended by a statement, or its settings msrepl.* were changed', $1
            using errcode = 'invalid_transaction_state',
                  hint = 'Roll back and try again. COMMIT, ROLLBACK and RESET ALL have no place in a global transaction.';
    end if;
    perform msrepl.reset_link();
    if pg_current_xact_id_if_assigned() is not null then
        begin
            insert into msrepl.branch_marker (gid, xid, participants, prepared)
            values ($1 || ':sub1', pg_current_xact_id(),
                    case when sites = array['pub', 'sub1'] then array[]::text[] else sites[2:] end, true);
        exception when unique_violation then
            raise exception 'this transaction was prepared at the Publisher already, or its settings msrepl.* were changed'
                using errcode = 'invalid_transaction_state',
                      detail = sqlerrm,
                      hint = 'Roll back and try again.';
        end;
    end if;
end
$msrepl$;
alter procedure msrepl.prepare_publisher(text, integer, text, text[]) owner to "msrepl_owner_8d9001d32c6a";
revoke all on procedure msrepl.prepare_publisher(text, integer, text, text[]) from public;
comment on procedure msrepl.prepare_publisher(text, integer, text, text[]) is 'Prepares the branch at the Publisher, for a coordinator';

-- msrepl.refuse_unprepared: the transaction is not committed here without its branch at the Publisher.
-- called by: the deferred trigger of msrepl.branch_marker, at PREPARE TRANSACTION or COMMIT
-- tables:    msrepl.branch_marker, msrepl.any_client
-- holes:     owner, own_branch, sites
--
-- Whoever names a global transaction and then commits as ever would have the change at this site only: what
-- the link has open at the Publisher is rolled back.
--
-- Any client: the Publisher's branch is prepared here, and the COMMIT that goes on is the decision. What still
-- fails after that leaves the branch prepared, without a decision; the resolver rolls it back.
--
-- SET CONSTRAINTS ALL IMMEDIATE makes this run too early to tell. So the first turn in a message only goes to
-- the end of the queue, behind every deferred trigger that was waiting too; the next turn in the same message is
-- at the transaction's end. Within a function it may be said several times in a message: what is around this one
-- tells then, as at a transaction's end nothing is but a procedure's COMMIT. In another language of messages
-- that is not known as such: after some turns it is taken for the end whatever is around. Taken for the end too
-- early, a coordinator's transaction is refused, and any client's changes nothing more. Within a savepoint it is not
-- the end.
--
-- A resolver that sleeps holds the advisory lock 1836282471 and is woken; one that is awake cannot fall asleep
-- until our commit can be seen. NOTIFY would let only one transaction at a time commit on the whole server.
create or replace function msrepl.refuse_unprepared() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp set enable_seqscan = off
as $msrepl$
#variable_conflict use_column
declare
    here tid := nullif(current_setting('msrepl.marker', true), '')::tid;
    marker msrepl.branch_marker;
    context text;
    around text;
    calls integer;
begin
    select m.* into marker from msrepl.branch_marker as m where m.ctid = here and m.xid = pg_current_xact_id();
    if marker.prepared or new.calls = 0 and new.pending is null then
        return null;
    elsif marker.gid is null then
        -- somebody has changed the setting: prepare_branch goes by it
        select m.ctid into here from msrepl.branch_marker as m where m.xid = pg_current_xact_id();
        select m.* into marker from msrepl.branch_marker as m where m.ctid = here;
        perform set_config('msrepl.marker', here::text, true);
        if marker.prepared then
            return null;
        end if;
    end if;
    get diagnostics context = pg_context;
    around := substr(context, strpos(context || E'\n', E'\n') + 1);
    if marker.asked_at is distinct from statement_timestamp()
       or marker.turn < 8 and around <> '' and split_part(around, E'\n', 1) !~ ' at COMMIT$' then
        calls := 0;
    elsif not exists (
        select from msrepl.any_client as a
        where starts_with(marker.gid, 'twopc:' || a.coordinator || ':' || a.epoch || ':')
    ) then
        raise exception 'branch % has changed replicated tables, and is not prepared at the Publisher: committed here, it would be at this site only', marker.gid
            using errcode = 'object_not_in_prerequisite_state',
                  hint = 'Let the coordinator commit it: topology.transaction(...) does. It calls msrepl.prepare_publisher before it prepares or commits here.';
    elsif current_query() ~* E'^\\s*prepare\\s+transaction\\M' then
        raise exception 'a transaction that has changed replicated tables is prepared by its coordinator only'
            using errcode = 'feature_not_supported',
                  hint = 'COMMIT it, which prepares the Publisher; or let topology.transaction(...) do it.';
    else
        calls := msrepl.prepare_branch(left(marker.gid, -length(':sub1')), array['pub', 'sub1'], true);
    end if;
    if calls = 0 then
        -- too early to tell
        set constraints msrepl.trg_mssync_guard_branches deferred;
        update msrepl.branch_marker as m set turn = least(m.turn + 1, 8), asked_at = statement_timestamp()
        where m.gid = marker.gid returning set_config('msrepl.marker', m.ctid::text, true)::tid into here;
    elsif not pg_try_advisory_xact_lock_shared(1836282471, 0) then
        perform pg_notify('msrepl_any_client', '');
    end if;
    return null;
end
$msrepl$;
alter function msrepl.refuse_unprepared() owner to "msrepl_owner_8d9001d32c6a";
revoke all on function msrepl.refuse_unprepared() from public;
comment on function msrepl.refuse_unprepared() is 'Refuses to commit a branch whose Publisher was not asked; asks it for any client';

-- trg_mssync_guard_branches: at the end of a transaction that has sent something, asks refuse_unprepared.
-- called by: PostgreSQL, at PREPARE TRANSACTION or COMMIT
-- tables:    msrepl.branch_marker
-- holes:     owner
--
-- It is for the function to leave alone who has sent nothing: a WHEN clause would be parsed for every transaction.
-- ENABLE ALWAYS: a session that goes over to the replica role behind its changes is asked too, and a turn that the
-- guard puts off comes back.
-- Made once: CREATE TRIGGER waits for whoever has a branch here, whenever a topology is opened again.
do $msrepl$
begin
    if not exists (
        select from pg_catalog.pg_trigger as t
        where t.tgrelid = 'msrepl.branch_marker'::pg_catalog.regclass
          and t.tgname = 'trg_mssync_guard_branches' and t.tgenabled = 'A'
    ) then
        set local role "msrepl_owner_8d9001d32c6a";
        drop trigger if exists trg_mssync_guard_branches on msrepl.branch_marker;
        create constraint trigger trg_mssync_guard_branches
            after insert or update of turn on msrepl.branch_marker deferrable initially deferred
            for each row execute function msrepl.refuse_unprepared();
        alter table msrepl.branch_marker enable always trigger trg_mssync_guard_branches;
        comment on trigger trg_mssync_guard_branches on msrepl.branch_marker is 'No commit without the Publisher''s branch';
        reset role;
    end if;
end
$msrepl$;

-- The row of a subscription: its Publisher, and the name under which it takes part in transactions.
-- called by: twopc.subscriber.subscription, twopc.subscriber.read_only, the script of a subscription
-- tables:    msrepl.mssubscription_agents
-- holes:     publisher, subscriber, publisher_db, server, update_mode
do $msrepl$
begin
    if exists (select from msrepl.mssubscription_agents) then
        raise exception 'database "%" subscribes to "%" already (21058)', current_database(),
            (select a.publisher from msrepl.mssubscription_agents as a)
            using errcode = 'object_not_in_prerequisite_state', hint = 'Unsubscribe first: twopc unsubscribe.';
    end if;
end
$msrepl$;
insert into msrepl.mssubscription_agents (publisher, subscriber, publisher_db, link, update_mode)
values ('pub', 'sub1', 'sales', 'msrepl_publisher', 'sync tran');
