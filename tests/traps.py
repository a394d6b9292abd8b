"""Objects that a foreign role may create in a schema, and that PostgreSQL prefers to its own.

An operator or function with exactly the types of the operands is preferred to one of pg_catalog that accepts them by a
cast or as any type. All of them fail with HO000 and name the role that executes them.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection

ROOT = Path(__file__).parents[1]
REACHED = "HO000"
"""The SQLSTATE of all traps."""

_CALL = re.compile(r"\b([a-z_][a-z_0-9]*)\(")


@functools.cache
def called() -> tuple[str, ...]:
    """Return all names before a parenthesis in our SQL and Python, including PostgreSQL's functions."""
    files = (
        path
        for folder in ("publisher", "subscriber", "twopc", "sim/topology", "sim/validation")
        for suffix in ("*.sql", "*.py")
        for path in (ROOT / folder).rglob(suffix)
    )
    return tuple(
        sorted({name for path in files for name in _CALL.findall(path.read_text(encoding="utf-8"))})
    )


_TRAPS = r"""
do $traps$
declare
    operands constant regtype[] := array[
        'text', 'varchar', 'name', '"char"', 'int2', 'int4', 'int8', 'oid', 'regclass', 'regtype', 'uuid', 'jsonb', 'bool',
        'tid', 'pg_lsn', 'text[]', 'varchar[]', 'name[]', 'int2[]', 'int4[]', 'oid[]', 'int2vector', 'oidvector'{own}]::regtype[];
    called constant text[] := string_to_array(current_setting('traps.called'), ',');
    text text;
    operator text;
    made record;
begin
    for made in
        select l.type as a, r.type as b, array_agg(s.operator) as operators
        from unnest(array['=', '<>', '||', '<', '>', '~', '&', '+', '->', '->>', '>=', '<=', '-', '/', '%', '@>', '!~'])
             with ordinality as s(operator, place),
             unnest(operands) with ordinality as l(type, place), unnest(operands) with ordinality as r(type, place)
        where (s.place = 1 or l.place = r.place or s.place < 6 and 'text'::regtype in (l.type, r.type)
               or 'int4'::regtype in (l.type, r.type) and l.type::text ~ '^(int|small|big|oid|reg)')
          and not exists (
            select from pg_operator o
            where o.oprname = s.operator and o.oprleft = l.type and o.oprright = r.type
              and o.oprnamespace = 'pg_catalog'::regnamespace)
        group by l.type, r.type
    loop
        text := format('create function {schema}.trap(%s, %s) returns bool language plpgsql as %L', made.a, made.b,
            format('begin raise exception ''operator of %s and %s reached as %%'', current_user using errcode = ''HO000''; end',
                   made.a, made.b));
        foreach operator in array made.operators loop
            text := text || format('; create operator {schema}.%s (function = {schema}.trap, leftarg = %s, rightarg = %s)',
                                   operator, made.a, made.b);
        end loop;
        execute text;
    end loop;
    for made in
        with takes as (
            select p.proname, p.prorettype, p.pronargs, t.type as wanted, array(
                select case
                    when a.type = 'anyarray'::regtype and t.type::text like '%[]' then t.type
                    when a.type = any ('{"\"any\"",anyelement,anynonarray,anycompatible}'::regtype[]) then t.type
                    when a.type = 'text'::regtype and t.type = any ('{varchar,name}'::regtype[]) then t.type
                    when a.type = any ('{int4,int8}'::regtype[]) and t.type = 'int2'::regtype then t.type
                    when a.type = 'regclass'::regtype and t.type = 'oid'::regtype then t.type
                    when a.type = 'oid'::regtype and t.type = 'regclass'::regtype then t.type
                    else a.type end
                from unnest(p.proargtypes) with ordinality as a(type, place) order by a.place)::regtype[] as arguments,
                p.proargtypes::oid[]::regtype[] as before
            from pg_proc p, unnest(operands) as t(type)
            where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'f' and p.provariadic = 0
              and p.proname = any (called) and p.pronargs between 1 and 6
        )
        select distinct proname as name, prorettype::regtype::text as result,
               array_to_string(arguments, ', ') as arguments
        from takes
        where arguments <> before and not exists (
            select from pg_proc p where p.pronamespace = 'pg_catalog'::regnamespace and p.proname = takes.proname
              and p.proargtypes::oid[]::regtype[] = takes.arguments)
      union all
        select distinct p.proname, p.prorettype::regtype::text, f.fixed || 'variadic ' || v.type
        from pg_proc p, unnest(array['text[]', 'int4[]', 'name[]', 'varchar[]', 'jsonb[]']) as v(type),
             lateral (select case when p.pronargs > 1 then 'text, ' else '' end) as f(fixed)
        where p.pronamespace = 'pg_catalog'::regnamespace and p.provariadic = '"any"'::regtype
          and p.proname = any (called)
      union all
        select distinct p.proname, p.prorettype::regtype::text, a.type || ', ' || b.type || c.type
        from pg_proc p, unnest(array['text', 'name', 'varchar', 'int4']) as a(type),
             unnest(array['text', 'int4', 'int8', 'varchar', 'name', 'uuid', 'jsonb', 'oid', 'bool'{own}]) as b(type),
             unnest(array['', ', text', ', int4']) as c(type)
        where p.pronamespace = 'pg_catalog'::regnamespace and p.provariadic = '"any"'::regtype
          and p.proname = any (called)
    loop
        continue when made.result ~ 'trigger|internal|record|cstring' or made.arguments ~ '^any|, any';
        begin
            execute format('create function {schema}.%I(%s) returns %s language plpgsql as %L',
                made.name, made.arguments, case when made.result ~ '^any' then 'text' else made.result end,
                format('begin raise exception ''%s(%s) reached as %%'', current_user using errcode = ''HO000''; end',
                       made.name, replace(made.arguments, '"', '')));
        exception when invalid_function_definition or duplicate_function or wrong_object_type then null;
        end;
    end loop;
    for made in
        select distinct p.proname as name, t.type from pg_proc p, unnest(operands) as t(type)
        where p.pronamespace = 'pg_catalog'::regnamespace and p.prokind = 'a' and p.pronargs = 1
          and p.proname = any (called) and not exists (
            select from pg_proc q where q.pronamespace = 'pg_catalog'::regnamespace and q.proname = p.proname
              and q.proargtypes::oid[]::regtype[] = array[t.type])
    loop
        execute format('create function {schema}.%I(text, %s) returns text language plpgsql as %L',
            'step_' || made.name, made.type,
            format('begin raise exception ''%s(%s) reached as %%'', current_user using errcode = ''HO000''; end',
                   made.name, replace(made.type::text, '"', '')));
        execute format('create aggregate {schema}.%I(%s) (sfunc = {schema}.%I, stype = text)',
            made.name, made.type, 'step_' || made.name);
    end loop;
end $traps$
"""


async def traps(connection: AsyncConnection[Any], schema: str, *own: str) -> None:
    """Create the traps, as the role of the connection.

    Args:
        own: further types for whose operators traps are created.
    """
    types = "".join(f", '{name}'" for name in own)
    text = _TRAPS.replace("{schema}", schema).replace("{own}", types)
    await connection.execute("set search_path = pg_catalog, pg_temp")
    await connection.execute("select set_config('traps.called', %s, false)", (",".join(called()),))
    await connection.execute(text.encode())
