"""Obstacles to sending a routine's calls, and warnings of results that may differ at Subscribers."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection

from twopc.names import article_name
from twopc.proc_execution import ProcArticle, ProcType, ProcWarning
from twopc.publisher.proc_execution.scan import (
    DatabaseRoutines,
    decides,
    source_of,
    strange_type,
    warnings_of,
)
from twopc.publisher.proc_execution.writes import ArticleLimits

Connection = AsyncConnection[Any]

_TABLES = """
select a.source_schema, a.source_object,
       a.filter_clause is not null or exists (select from msrepl.sysfilteredarticles f where f.base = a.article_id),
       (select t.attname::text from pg_attribute t
        left join pg_attrdef d on d.adrelid = t.attrelid and d.adnum = t.attnum
        where t.attrelid = a.objid and t.attnum > 0 and not t.attisdropped
          and (t.attidentity <> '' or pg_get_expr(d.adbin, d.adrelid) like 'nextval(%')
        order by t.attnum limit 1),
       array(select t.attname::text from pg_attribute t
             where t.attrelid = a.objid and t.attnum > 0 and not t.attisdropped and t.attnum <> all (a.columns)),
       array(select t.attname::text from pg_attribute t
             where t.attrelid = a.objid and t.attnum > 0 and not t.attisdropped),
       concat_ws(' ', a.filter_clause,
                 (select string_agg(f.filter_clause, ' ') from msrepl.sysfilteredarticles f where f.base = a.article_id)),
       array(select p.key from jsonb_each(a.propagation) p where p.value = '"NONE"')
from msrepl.sysarticles a
"""
_OTHERS = """
select n.nspname::text, c.relname::text
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'v', 'm', 'f') and not c.relispartition
  and n.nspname !~ '^(pg_|information_schema$|msrepl)'
  and c.oid not in (select a.objid from msrepl.sysarticles a)
"""
_FUNCTIONS = """
select p.proname::text, p.prosrc
from pg_proc p join pg_namespace n on n.oid = p.pronamespace
join pg_language l on l.oid = p.prolang
where n.nspname !~ '^(pg_|information_schema$|msrepl)' and p.prokind in ('f', 'p')
  and l.lanname not in ('c', 'internal') and p.oid not in (select a.objid from msrepl.sysprocarticles a)
"""


async def examine(
    connection: Connection, article: ProcArticle
) -> tuple[str | None, tuple[ProcWarning, ...]]:
    """Return the obstacle because of which every call is sent as rows (None if there is none), and warnings."""
    if article.type is ProcType.SCHEMA_ONLY or article.commits:
        return None, ()
    writes = None if article.writes is None else list(article.writes)
    cursor = await connection.execute("select msrepl.proc_obstacle(%s)", (writes,))
    row = await cursor.fetchone()
    obstacle: str | None = row[0] if row is not None else None
    tables = await (await connection.execute(_TABLES.encode())).fetchall()
    others = await (await connection.execute(_OTHERS.encode())).fetchall()
    functions = await (await connection.execute(_FUNCTIONS.encode())).fetchall()
    warnings = warnings_of(
        source_of(article.definition),
        tables={article_name(schema, name): cut for schema, name, cut, *_ in tables},
        known=DatabaseRoutines(
            unpublished=frozenset(article_name(schema, name) for schema, name in others),
            made={article_name(schema, name): made for schema, name, _, made, *_ in tables if made},
            narrow={
                article_name(schema, name): ArticleLimits(
                    left_out=frozenset(left_out),
                    decides=decides(condition, columns),
                    stays=frozenset(stays),
                )
                for schema, name, _, _, left_out, columns, condition, stays in tables
            },
            functions=dict(functions),
            declared=article.tables,
        ),
    )
    results = [*warnings]
    for each in article.given:
        if strange_type(each.type):
            shown = each.name or f"${article.arguments.index(each) + 1}"
            text = (
                f"argument {shown} is a {each.type}, which means another thing in another database"
            )
            results.append(ProcWarning(kind="types", object=shown, text=text))
    if obstacle is not None:
        text = f"every call travels as rows: {obstacle}"
        results.append(ProcWarning(kind="obstacle", object=obstacle.split(",")[0], text=text))
    return obstacle, tuple(results)
