"""Reads from the catalogs the user-defined types that a table's columns need, and their definitions. Changes
nothing.

Enums, domains, composites and ranges are described by the statement that creates them; types of an extension by the
extension's name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from twopc.articles import UserType
from twopc.sql.catalog_texts import full_names

# Built-in types have OIDs below 16384 (FirstNormalObjectId). A type is needed by a column, or by another needed
# type: as its element, base, attribute or subtype.
_NEEDED = """
with recursive roots(label, typ) as (
    {roots}
), needed(label, typ, depth) as (
    select r.label, r.typ, 0 from roots r where r.typ >= 16384
  union all
    select n.label, inner_type.oid, n.depth + 1
    from needed n
    join pg_type t on t.oid = n.typ
    cross join lateral (
        select t.typelem where t.typcategory = 'A' and t.typtype = 'b'
      union all
        select t.typbasetype
      union all
        select a.atttypid from pg_attribute a
        where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
      union all
        select x.rngsubtype from pg_range x where x.rngtypid = t.oid
      union all
        select x.rngtypid from pg_range x where x.rngmultitypid = t.oid
    ) as inner_type(oid)
    where inner_type.oid >= 16384
), ordered as (
    select typ, max(depth) as depth, array_agg(distinct label) as labels from needed group by typ
)
"""

_DEFINITIONS = """
select ns.nspname::text as schema,
       format_type(t.oid, null) as name,
       e.extname::text as extension,
       o.labels as columns,
       case when e.extname is null then
         case t.typtype
         when 'e' then format('create type %%s as enum (%%s)', format_type(t.oid, null), (
                select string_agg(quote_literal(l.enumlabel), ', ' order by l.enumsortorder)
                from pg_enum l where l.enumtypid = t.oid))
         when 'd' then format('create domain %%s as %%s', format_type(t.oid, null), concat_ws(' ',
                format_type(t.typbasetype, t.typtypmod),
                case when t.typcollation <> b.typcollation
                     then format('collate %%I.%%I', cn.nspname, c.collname) end,
                'default ' || pg_get_expr(t.typdefaultbin, 0),
                case when t.typnotnull then 'not null' end,
                (select string_agg(format('constraint %%I %%s', k.conname, pg_get_constraintdef(k.oid)),
                                   ' ' order by k.conname)
                 from pg_constraint k where k.contypid = t.oid and k.contype = 'c')))
         when 'c' then format('create type %%s as (%%s)', format_type(t.oid, null), (
                select string_agg(concat_ws(' ', quote_ident(a.attname),
                                            format_type(a.atttypid, a.atttypmod),
                                            case when a.attcollation <> at.typcollation
                                                 then format('collate %%I.%%I', an.nspname, ac.collname) end),
                                  ', ' order by a.attnum)
                from pg_attribute a
                join pg_type at on at.oid = a.atttypid
                left join pg_collation ac on ac.oid = a.attcollation
                left join pg_namespace an on an.oid = ac.collnamespace
                where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped))
         when 'r' then (
                select format('create type %%s as range (%%s)', format_type(t.oid, null), concat_ws(', ',
                        'subtype = ' || format_type(r.rngsubtype, null),
                        format('subtype_opclass = %%I.%%I', pn.nspname, p.opcname),
                        case when r.rngcollation <> s.typcollation
                             then format('collation = %%I.%%I', rn.nspname, rc.collname) end,
                        'canonical = ' || nullif(r.rngcanonical, 0)::regproc,
                        'subtype_diff = ' || nullif(r.rngsubdiff, 0)::regproc,
                        'multirange_type_name = ' || format_type(r.rngmultitypid, null)))
                from pg_range r
                join pg_type s on s.oid = r.rngsubtype
                join pg_opclass p on p.oid = r.rngsubopc
                join pg_namespace pn on pn.oid = p.opcnamespace
                left join pg_collation rc on rc.oid = r.rngcollation
                left join pg_namespace rn on rn.oid = rc.collnamespace
                where r.rngtypid = t.oid)
         end
       end as definition
from ordered o
join pg_type t on t.oid = o.typ
join pg_namespace ns on ns.oid = t.typnamespace
left join pg_type b on b.oid = t.typbasetype
left join pg_collation c on c.oid = t.typcollation
left join pg_namespace cn on cn.oid = c.collnamespace
left join pg_depend d on d.classid = 'pg_type'::regclass and d.objid = t.oid
    and d.deptype = 'e' and d.refclassid = 'pg_extension'::regclass
left join pg_extension e on e.oid = d.refobjid
-- an array comes with its element, a multirange with its range
where not (t.typcategory = 'A' and t.typtype = 'b') and t.typtype <> 'm'
order by o.depth desc, ns.nspname, t.typname
"""

_OF_TABLE = """
    select a.attname::text, a.atttypid
    from pg_attribute a
    where a.attrelid = %(roots)s and a.attnum > 0 and not a.attisdropped
"""

_BY_NAME = """
    select n.name, to_regtype(n.name)::oid from unnest(%(roots)s::text[]) as n(name)
    where to_regtype(n.name) is not null
"""


async def types_of_table(connection: AsyncConnection[Any], relid: int) -> tuple[UserType, ...]:
    """Return the types that the columns of a table need; `columns` of each are the columns that need it.

    Called by `twopc.sql.describe`, which has names printed with their schemas.
    """
    return await _types(connection, _OF_TABLE, relid)


async def types_by_name(
    connection: AsyncConnection[Any], names: Sequence[str]
) -> dict[str, UserType]:
    """Return those of the named types (quoted, with their schema) that exist in this database, by name."""
    if not names:
        return {}
    async with full_names(connection):
        result = await _types(connection, _BY_NAME, list(names))
    return {user_type.name: user_type for user_type in result}


async def _types(
    connection: AsyncConnection[Any], roots: str, argument: Any
) -> tuple[UserType, ...]:
    query = _NEEDED.replace("{roots}", roots) + _DEFINITIONS
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query.encode(), {"roots": argument})
        rows = await cursor.fetchall()
    return tuple(UserType(**{**row, "columns": tuple(row["columns"])}) for row in rows)
