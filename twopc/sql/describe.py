"""Reads a table's definition from the catalogs into `twopc.articles.Table`. Changes nothing."""

from __future__ import annotations

import difflib
from typing import Any

from psycopg import AsyncClientCursor, AsyncConnection
from psycopg.rows import dict_row, tuple_row

from twopc.articles import Check, Column, ForeignKey, Table, UniqueKey, UserTrigger
from twopc.errors import ArticleError
from twopc.sql.catalog_texts import full_names
from twopc.sql.user_types import types_of_table

# `regular` is the type behind a domain; an array is as comparable as its elements. Geometric types have an
# operator named = that compares areas or nothing at all, so an operator class is required, of the type or of one that
# its values are taken for without a cast (varchar is taken for text, xml is not). IS NOT DISTINCT FROM
# looks its operator up by the search path, which in our procedures is pg_catalog: types with an operator in
# another schema are compared by text, and as keys by the operator's full name.
_COLUMNS = """
with recursive regular(attnum, typ, depth) as (
    select a.attnum, a.atttypid, 0
    from pg_attribute a
    where a.attrelid = %(relid)s and a.attnum > 0 and not a.attisdropped
  union all
    select r.attnum, case when t.typtype = 'd' then t.typbasetype else t.typelem end, r.depth + 1
    from regular r
    join pg_type t on t.oid = r.typ
    where t.typtype = 'd' or (t.typcategory = 'A' and t.typelem <> 0)
), equality(attnum, typ, oprname, nspname) as (
    {equality}
), comparable as (
    select r.attnum, bool_and(
        t.typtype in ('d', 'e', 'r', 'm') or t.typcategory = 'A'
        or (exists (
            select from pg_opclass o
            join pg_am m on m.oid = o.opcmethod and m.amname in ('btree', 'hash')
            where o.opcdefault and (o.opcintype = t.oid or exists (
                select from pg_cast c
                where c.castsource = t.oid and c.casttarget = o.opcintype
                  and c.castmethod = 'b' and c.castcontext = 'i'))
            ) and not exists (select from equality e where e.attnum = r.attnum and e.typ = r.typ))
        ) as yes
    from regular r
    join pg_type t on t.oid = r.typ
    group by r.attnum
)
select a.attname as name,
       format_type(a.atttypid, a.atttypmod) as type,
       format_type(a.atttypid, -1) as plain_type,
       a.attnotnull as not_null,
       a.attidentity::text as identity,
       a.attgenerated::text as generated,
       pg_get_expr(d.adbin, d.adrelid) as default,
       -- what a default expression stands on: a sequence, or a function that a Subscriber lacks
       exists (
           select from pg_depend p
           where p.classid = 'pg_attrdef'::regclass and p.objid = d.oid and a.attgenerated = ''
             and ((p.refclassid = 'pg_class'::regclass and p.refobjid <> a.attrelid)
                  or p.refclassid = 'pg_proc'::regclass)
       ) as default_at_publisher,
       c.yes as comparable,
       coalesce((
           select format('operator(%%I.%%s)', e.nspname, e.oprname) from equality e
           join regular r on r.attnum = e.attnum and r.typ = e.typ
           where e.attnum = a.attnum
             and not exists (select from regular s join pg_type x on x.oid = s.typ
                             where s.attnum = r.attnum and s.depth < r.depth and x.typcategory = 'A')
       ), '=') as equality,
       case when a.attcollation <> t.typcollation
            then format('%%I.%%I', n.nspname, l.collname) end as collation,
       exists (select from regular r where r.attnum = a.attnum and r.typ = 'money'::regtype) as monetary,
       case when a.attgenerated <> '' then array(
           select b.attname::text from pg_depend p
           join pg_attribute b on b.attrelid = p.refobjid and b.attnum = p.refobjsubid
           where p.classid = 'pg_attrdef'::regclass and p.objid = d.oid
             and p.refclassid = 'pg_class'::regclass and p.refobjid = a.attrelid and p.deptype = 'n'
           order by b.attnum
       ) else array[]::text[] end as generated_from
from pg_attribute a
join pg_type t on t.oid = a.atttypid
join comparable c on c.attnum = a.attnum
left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
left join pg_collation l on l.oid = a.attcollation
left join pg_namespace n on n.oid = l.collnamespace
where a.attrelid = %(relid)s and a.attnum > 0 and not a.attisdropped
order by a.attnum
"""

# Operators outside pg_catalog. The built-in operator classes have none, and this query is half of the cost of the
# one above.
_OPERATORS = """
select r.attnum, r.typ, o.oprname, n.nspname
from regular r
join pg_opclass c on c.opcintype = r.typ and c.opcdefault
join pg_am m on m.oid = c.opcmethod and m.amname = 'btree'
join pg_amop p on p.amopfamily = c.opcfamily and p.amopstrategy = 3
    and p.amoplefttype = r.typ and p.amoprighttype = r.typ
join pg_operator o on o.oid = p.amopopr
join pg_namespace n on n.oid = o.oprnamespace
where n.nspname <> 'pg_catalog'
"""

# A constraint that uses a user's function or operator could have another meaning in another database.
_CHECKS = """
select c.conname::text as name,
       pg_get_constraintdef(c.oid) as definition,
       array(select a.attname::text from pg_attribute a
             where a.attrelid = c.conrelid and a.attnum = any (c.conkey) order by a.attnum) as columns,
       c.convalidated and coalesce(to_jsonb(c) ->> 'conenforced', 'true') = 'true'
         and not exists (
           select from pg_depend p
           where p.classid = 'pg_constraint'::regclass and p.objid = c.oid
             and p.refclassid in ('pg_proc'::regclass, 'pg_operator'::regclass)
       ) as portable
from pg_constraint c
where c.conrelid = %(relid)s and c.contype = 'c'
order by c.conname
"""

_UNIQUES = """
select i.relname::text as name,
       array(select a.attname::text
             from unnest(x.indkey::int2[]) with ordinality as k(attnum, place)
             join pg_attribute a on a.attrelid = x.indrelid and a.attnum = k.attnum
             where k.place <= x.indnkeyatts
             order by k.place) as columns,
       x.indisprimary as primary,
       pg_get_constraintdef(c.oid) as constraint,
       pg_get_indexdef(x.indexrelid) as index
from pg_index x
join pg_class i on i.oid = x.indexrelid
left join pg_constraint c on c.conindid = x.indexrelid and c.conrelid = x.indrelid and c.contype in ('p', 'u')
where x.indrelid = %(relid)s and x.indisunique and x.indisvalid
  and x.indpred is null and x.indexprs is null and not x.indisexclusion
order by x.indisprimary desc, i.relname
"""

_TRIGGERS = """
select t.tgname::text as name, t.tgtype & 2 <> 0 as before, t.tgtype & 1 <> 0 as row,
       t.tgtype & 4 <> 0 as insert, t.tgtype & 16 <> 0 as update, t.tgtype & 8 <> 0 as delete,
       t.tgrelid <> %(relid)s as of_partition
from pg_trigger t
join pg_proc p on p.oid = t.tgfoid
join pg_namespace n on n.oid = p.pronamespace
where not t.tgisinternal and t.tgenabled in ('O', 'A') and n.nspname <> 'msrepl'
  and (t.tgrelid = %(relid)s
       or t.tgparentid = 0 and t.tgrelid in (select relid from pg_partition_tree(%(relid)s)))
order by t.tgname
"""

_FOREIGN_KEYS = """
select c.conname::text as name,
       n.nspname::text as schema, r.relname::text as table,
       array(select a.attname::text from unnest(c.conkey) with ordinality as k(n, p)
             join pg_attribute a on a.attrelid = c.conrelid and a.attnum = k.n order by k.p) as columns,
       fn.nspname::text as target_schema, f.relname::text as target_table,
       array(select a.attname::text from unnest(c.confkey) with ordinality as k(n, p)
             join pg_attribute a on a.attrelid = c.confrelid and a.attnum = k.n order by k.p
            ) as target_columns,
       c.confdeltype::text as on_delete, c.confupdtype::text as on_update,
       regexp_replace(pg_get_constraintdef(c.oid), '( DEFERRABLE)?( INITIALLY DEFERRED)?( NOT VALID)?$', '')
           as definition,
       c.condeferrable as deferrable, c.condeferred as deferred, c.convalidated as validated,
       c.conrelid = %(relid)s as outgoing, c.confrelid = %(relid)s as incoming
from pg_constraint c
join pg_class r on r.oid = c.conrelid
join pg_namespace n on n.oid = r.relnamespace
join pg_class f on f.oid = c.confrelid
join pg_namespace fn on fn.oid = f.relnamespace
where c.contype = 'f' and c.conparentid = 0 and %(relid)s in (c.conrelid, c.confrelid)
  and coalesce(to_jsonb(c) ->> 'conenforced', 'true') = 'true'
order by n.nspname, r.relname, c.conname
"""


def _details(equality: str) -> str:
    return ";".join(
        (_COLUMNS.format(equality=equality), _UNIQUES, _FOREIGN_KEYS, _CHECKS, _TRIGGERS)
    )


_DETAILS = _details("select null::smallint, null::oid, null::name, null::name where false")
_DETAILS_WITH_OPERATORS = _details(_OPERATORS)

_RELATION = """
select c.oid, n.nspname::text as schema, c.relname::text as name,
       c.relkind::text as kind, c.relpersistence::text as persistence,
       c.relispartition as is_partition,
       c.relrowsecurity or c.relforcerowsecurity as row_security,
       c.relkind = 'r' and not c.relispartition and exists (
           select from pg_inherits i where c.oid in (i.inhrelid, i.inhparent)) as inherits,
       exists (select from pg_rewrite r where r.ev_class = c.oid) as has_rules,
       exists (select from pg_attribute a where a.attrelid = c.oid and a.atttypid >= 16384) as user_types,
       exists (select from pg_opclass o where o.oid >= 16384) as user_operators
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relname = %s
"""

_PARTITIONS = """
select n.nspname::text, c.relname::text
from pg_partition_tree(%s) p
join pg_class c on c.oid = p.relid
join pg_namespace n on n.oid = c.relnamespace
where p.level > 0
order by 1, 2
"""

_SIMILAR = """
select format('%%s.%%s', n.nspname, c.relname)
from pg_class c
join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and n.nspname !~ '^(pg_|information_schema|msrepl)'
order by n.nspname = %s desc, n.nspname, c.relname
"""


async def describe(connection: AsyncConnection[Any], schema: str, table: str) -> Table:
    """Return the table's present definition.

    Raises:
        ArticleError: the table does not exist; the message lists similar ones.
    """
    async with full_names(connection):
        return await _describe(connection, schema, table)


async def _rows(
    connection: AsyncConnection[Any], query: str, parameters: Any
) -> list[tuple[Any, ...]]:
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(query, parameters)
        return await cursor.fetchall()


async def _describe(connection: AsyncConnection[Any], schema: str, table: str) -> Table:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(_RELATION, (schema, table))
        relation = await cursor.fetchone()
        if relation is None:
            raise ArticleError(await _no_such_table(connection, schema, table))
        relid, user_types = relation.pop("oid"), relation.pop("user_types")
        query = _DETAILS_WITH_OPERATORS if relation.pop("user_operators") else _DETAILS
    # sent as one message: only a text without separate parameters may contain several statements
    async with AsyncClientCursor(connection, row_factory=dict_row) as details:
        await details.execute(query.encode(), {"relid": relid})
        rows = [await details.fetchall()]
        while details.nextset():
            rows.append(await details.fetchall())
    described, unique, keys, checked, triggers = rows
    uniques = tuple(UniqueKey(**{**row, "columns": tuple(row["columns"])}) for row in unique)
    partitions = await _rows(connection, _PARTITIONS, (relid,)) if relation["kind"] == "p" else []
    return Table(
        columns=tuple(
            Column(**{**row, "generated_from": tuple(row["generated_from"])}) for row in described
        ),
        key=next((unique.columns for unique in uniques if unique.primary), ()),
        uniques=uniques,
        partitions=tuple((row[0], row[1]) for row in partitions),
        triggers=tuple(_trigger(row) for row in triggers if not row["of_partition"]),
        partition_triggers=tuple(_trigger(row) for row in triggers if row["of_partition"]),
        references=tuple(_foreign_key(row) for row in keys if row["outgoing"]),
        referenced_by=tuple(_foreign_key(row) for row in keys if row["incoming"]),
        checks=tuple(Check(**{**row, "columns": tuple(row["columns"])}) for row in checked),
        types=await types_of_table(connection, relid) if user_types else (),
        **relation,
    )


def _trigger(row: dict[str, Any]) -> UserTrigger:
    return UserTrigger(**{name: value for name, value in row.items() if name != "of_partition"})


def _foreign_key(row: dict[str, Any]) -> ForeignKey:
    values = {name: value for name, value in row.items() if name not in ("outgoing", "incoming")}
    values["columns"] = tuple(values["columns"])
    values["target_columns"] = tuple(values["target_columns"])
    return ForeignKey(**values)


async def _no_such_table(connection: AsyncConnection[Any], schema: str, table: str) -> str:
    names = [row[0] for row in await _rows(connection, _SIMILAR, (schema,))]
    requested = f"{schema}.{table}"
    qualified = [name for name in names if name.split(".", 1)[1] == table]
    close = qualified or difflib.get_close_matches(requested, names, n=3) or names[:5]
    remedy = f"did you mean {', '.join(close)}?" if close else "the database has no tables"
    return f"table {requested} does not exist in {connection.info.dbname!r}: {remedy}"
