"""Which rows of a published table belong to an article, for administrators who read them.

An administrator is a superuser, and a row filter may call functions of the table's owner: so the filter is
evaluated as for the log reader, with the privileges of the table's role.
"""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, sql

from twopc.articles import Article
from twopc.errors import ArticleError
from twopc.publisher.distribution_setup import condition_of
from twopc.sql import fragments as f

#: Alias of the table in the condition.
ALIAS = "t"
_FILTERS = """
select a.article_id, a.filter_clause, p.article_id, p.filter_clause
from msrepl.sysarticles a left join msrepl.sysfilteredarticles p on p.base = a.article_id
where a.objid = %s::regclass
"""
_LOGGED = """
select attname from pg_attribute
where attrelid = %s::regclass and attnum > 0 and not attisdropped and attgenerated = '' order by attnum
"""


async def condition(connection: AsyncConnection[Any], article: Article) -> sql.Composable:
    """Return a condition on the table, under the alias `ALIAS`, that holds for the article's rows.

    Raises:
        ArticleError: the Publisher has no such filter.
    """
    if article.row_filter is None:
        return sql.SQL("true")
    table = f.table_of(article).as_string(None)
    results = await (await connection.execute(_FILTERS, (table,))).fetchall()
    numbers = {base: number for number, base, _, _ in results} | {
        condition_of(base, own): number for _, base, number, own in results if number is not None
    }
    number = numbers.get(article.row_filter)
    if number is None:
        raise ArticleError(
            f"article {article.name} has no row filter {article.row_filter!r} at the Publisher any more: "
            "`twopc regenerate` it"
        )
    logged = [name for (name,) in await (await connection.execute(_LOGGED, (table,))).fetchall()]
    return sql.SQL("(msrepl.filter_rows({}, array[row({})::text]))[1]").format(
        sql.Literal(number), f.identifiers(logged, ALIAS)
    )
