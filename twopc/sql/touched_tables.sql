-- msrepl.touched_tables: the tables that the current DDL may have changed; NULL means any.
-- called by: ddl_guard, within an event trigger
-- tables:    catalogs
-- holes:     owner
--
-- A digest of every table after every command would make DDL slow in a database with many articles. Routines and
-- types of ours belong to no table.
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
        -- related tables keep their rows; rows of a partition also belong to its parents
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
        -- from the catalogs, since to_regclass requires privileges on the schema
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
            return '{{}}';
        end if;
        select array_agg(coalesce(x.indrelid, k.conrelid, t.tgrelid, r.ev_class, d.objid))
        into tables
        from pg_event_trigger_ddl_commands() as d
        left join pg_index x on d.classid = 'pg_class'::regclass and x.indexrelid = d.objid
        left join pg_constraint k on d.classid = 'pg_constraint'::regclass and k.oid = d.objid
        left join pg_trigger t on d.classid = 'pg_trigger'::regclass and t.oid = d.objid
        left join pg_rewrite r on d.classid = 'pg_rewrite'::regclass and r.oid = d.objid;
    end if;
    -- related tables appear by name in each other's constraints and partitions
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
alter function msrepl.touched_tables(text) owner to {owner};
revoke all on function msrepl.touched_tables(text) from public;
comment on function msrepl.touched_tables(text) is 'Which tables the DDL in hand may have changed';
