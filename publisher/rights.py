"""Rights of the product's roles at the Publisher: the role of each published table, and each link role.

A table's role can read and write the published columns of the table and nothing else, so that even an error's
DETAIL cannot show an unpublished column; the owner of the sync procedures has no right to any table. A link role
can execute sync procedures and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.rows import class_row

from twopc import names
from twopc.articles import Article, Table
from twopc.proc_execution import PROC_SCHEMA
from twopc.publisher.procedures import OPERATIONS
from twopc.sql import fragments as f
from twopc.sql.catalog_texts import full_names
from twopc.sql.fragments import qualified
from twopc.sql.render import render
from twopc.sql.table_role import create_text

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredObject:
    """An object that a table's role must be able to use."""

    privilege: str
    kind: str
    """``function``, ``sequence`` or ``schema``."""
    name: str
    """Quoted name, with schema and arguments."""


# An expression is evaluated with the rights of the table's role.
_NEEDS = """
with used as (
    select p.refclassid, p.refobjid
    from pg_depend p
    where p.classid = %(class)s::regclass and p.objid = any (%(objects)s)
), functions as (
    select u.refobjid as oid from used u where u.refclassid = 'pg_proc'::regclass
  union
    select o.oprcode::oid from used u
    join pg_operator o on u.refclassid = 'pg_operator'::regclass and o.oid = u.refobjid
), schemas as (
    select p.pronamespace as oid from functions x join pg_proc p on p.oid = x.oid
  union
    select o.oprnamespace from used u
    join pg_operator o on u.refclassid = 'pg_operator'::regclass and o.oid = u.refobjid
  union
    select t.typnamespace from used u
    join pg_type t on u.refclassid = 'pg_type'::regclass and t.oid = u.refobjid
  union
    select c.relnamespace from used u
    join pg_class c on u.refclassid = 'pg_class'::regclass and c.oid = u.refobjid
  union
    select l.collnamespace from used u
    join pg_collation l on u.refclassid = 'pg_collation'::regclass and l.oid = u.refobjid
)
select 'execute' as privilege, 'function' as kind, x.oid::regprocedure::text as name
from functions x where x.oid >= 16384
union all
select 'usage', 'sequence', c.oid::regclass::text
from used u
join pg_class c on u.refclassid = 'pg_class'::regclass and c.oid = u.refobjid and c.relkind = 'S'
union all
select 'usage', 'schema', quote_ident(n.nspname)
from schemas s join pg_namespace n on n.oid = s.oid
where n.nspname <> 'pg_catalog'
order by 2, 3
"""

_GRANTED = """
select distinct
       case when d.classid = 'pg_namespace'::regclass then 'schema'
            when d.classid = 'pg_proc'::regclass then 'function'
            when c.relkind = 'S' then 'sequence' else 'table' end as kind,
       coalesce(quote_ident(n.nspname), c.oid::regclass::text, p.oid::regprocedure::text) as name
from pg_shdepend d
left join pg_class c on d.classid = 'pg_class'::regclass and c.oid = d.objid
left join pg_proc p on d.classid = 'pg_proc'::regclass and p.oid = d.objid
left join pg_namespace n on d.classid = 'pg_namespace'::regclass and n.oid = d.objid
where d.dbid = (select oid from pg_database where datname = current_database())
  and d.refclassid = 'pg_authid'::regclass and d.deptype = 'a'
  and d.refobjid = (select oid from pg_roles where rolname = %(role)s)
  and d.classid in ('pg_class'::regclass, 'pg_proc'::regclass, 'pg_namespace'::regclass)
  and not array[coalesce(n.oid, 0), coalesce(c.relnamespace, 0), coalesce(p.pronamespace, 0)]
      && array(select s.oid from pg_namespace s where s.nspname = any (%(schemas)s))
"""

_LINK_GRANTS = """
select format('grant execute on routine %%s to %%s', p.oid::regprocedure,
              string_agg(quote_ident(s.link_role), ', '))
from pg_proc p
cross join msrepl.syssubscriptions s
where p.pronamespace = 'msrepl'::regnamespace and p.proname::text = any (%s)
group by p.oid
"""

_EXPRESSIONS = """
select 'pg_attrdef', array(select oid from pg_attrdef where adrelid = %(relid)s)
union all
select 'pg_constraint', array(select oid from pg_constraint where conrelid = %(relid)s and contype = 'c')
"""


async def needs(
    connection: Connection, catalog: str, objects: Sequence[int]
) -> tuple[RequiredObject, ...]:
    """Return the objects used by the expressions of `objects` (OIDs in `catalog`) that require rights."""
    async with (
        full_names(connection),
        connection.cursor(row_factory=class_row(RequiredObject)) as cursor,
    ):
        await cursor.execute(_NEEDS, {"class": catalog, "objects": list(objects)})
        return tuple(await cursor.fetchall())


async def needs_of_table(connection: Connection, relid: int) -> tuple[RequiredObject, ...]:
    """Return the objects that the defaults, generated columns and CHECK constraints of a table use."""
    cursor = await connection.execute(_EXPRESSIONS, {"relid": relid})
    results: list[RequiredObject] = []
    for catalog, objects in await cursor.fetchall():
        results += await needs(connection, catalog, objects)
    return tuple(dict.fromkeys(results))


async def grant_table_role(
    connection: Connection,
    article: Article,
    owner: str,
    *,
    filter_columns: Iterable[str],
    needed: Iterable[RequiredObject],
) -> None:
    """Create the role of an article's table, and grant it the rights that its functions need.

    Args:
        owner: role that owns the product's objects in the database.
        filter_columns: columns that the row filter reads, published or not.
        needed: further objects that the role must be able to use.
    """
    await connection.execute(create_text(owner, article.schema, article.table, "delete").encode())
    role = sql.Identifier(names.table_role(owner, article.schema, article.table))
    await connection.execute(render("twopc.publisher", "table_role_rights", role=role).encode())
    table = f.table_of(article)
    read = dict.fromkeys([*(c.name for c in article.columns), *filter_columns])
    written = f.identifiers(c.name for c in article.value_columns)
    await connection.execute(
        sql.SQL("grant select ({}), insert ({}), update ({}) on {} to {}").format(
            f.identifiers(read), written, written, table, role
        )
    )
    schemas = {article.schema}
    for key in article.referenced_by:
        if not key.acts:
            continue
        # the functions search for children that the Subscriber does not hold
        schemas.add(key.schema)
        await connection.execute(
            sql.SQL("grant select ({}) on {} to {}").format(
                f.identifiers(key.columns), qualified(key.schema, key.table), role
            )
        )
    for schema in sorted(schemas):
        await connection.execute(
            sql.SQL("grant usage on schema {} to {}").format(sql.Identifier(schema), role)
        )
    for need in needed:
        await connection.execute(
            sql.SQL("grant {} on {} {} to {}").format(
                f.raw(need.privilege), f.raw(need.kind), f.raw(need.name), role
            )
        )


async def revoke_all(connection: Connection, role: str) -> None:
    """Revoke all rights of a table's role outside the product's own schemas."""
    async with full_names(connection), connection.cursor() as cursor:
        await cursor.execute(_GRANTED, {"role": role, "schemas": [names.SCHEMA, PROC_SCHEMA]})
        granted = await cursor.fetchall()
    for kind, name in granted:
        await connection.execute(
            sql.SQL("revoke all on {} {} from {}").format(
                f.raw(kind), f.raw(name), sql.Identifier(role)
            )
        )


async def grant_links(connection: Connection, schema: str, table: str) -> None:
    """Let every link role execute an article's procedures; calls need no rights on the types of their arguments."""
    procedures = [names.sync_procedure(what, schema, table) for what in (*OPERATIONS, "gen")]
    cursor = await connection.execute(_LINK_GRANTS, (procedures,))
    for (grant,) in await cursor.fetchall():
        await connection.execute(grant.encode())


async def trigger_path(connection: Connection, table: Table) -> list[str]:
    """Return the schemas where triggers of a table, and of tables it cascades to, find unqualified names.

    The triggers run with the rights of the table's role, so the path has no schema in which a role may create
    objects that may not create triggers on the table: an operator of that role could take the place of one of
    PostgreSQL's.
    """
    acts = any(key.acts for key in table.referenced_by)
    if not (table.triggers or table.partition_triggers or acts):
        return []
    cursor = await connection.execute(
        """
        select n.nspname::text from pg_namespace n
        where n.nspname in (%(schema)s, 'public') and not has_schema_privilege('public', n.oid, 'create')
          and not exists (
            select from pg_roles r
            where not r.rolsuper and r.oid >= 16384
              and has_schema_privilege(r.oid, n.oid, 'create')
              and not has_table_privilege(
                r.oid, format('%%I.%%I', %(schema)s::text, %(table)s::text), 'trigger'))
        order by n.nspname = 'public'
        """,
        {"schema": table.schema, "table": table.name},
    )
    return ["pg_catalog", *(name for (name,) in await cursor.fetchall())]
