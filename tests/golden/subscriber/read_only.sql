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

-- msrepl.mssubscription_agents, msrepl.msreplication_objects: the subscription of this database and its tables.
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

-- msrepl.table_structure: a digest of what the procedures and triggers of a table were generated from.
-- called by: publish/subscribe, and the event triggers that find stale objects (ddl_guard)
-- tables:    catalogs
-- holes:     owner, pinned
--
-- It includes names as they are in generated text: a rename makes that text stale. What our own code changes
-- is left out: our triggers, and whether keys are deferrable. NULL for a table that no longer exists. The
-- guard runs in sessions of any role, so constants and names are printed in the same way in all of them.
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

-- msrepl.drop_triggers: drops our triggers of a table and of its partitions.
-- called by: an administrator: subscribing, regenerating, unsubscribing
-- tables:    catalogs; msrepl.msreplication_objects
-- holes:     owner
--
-- It also drops those of tables that no longer belong to a subscribed table: a detached partition keeps its triggers.
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

-- The row of a subscription: its Publisher, and the name under which this Subscriber takes part in transactions.
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
values ('pub', 'sub1', 'sales', NULL, 'read only');
