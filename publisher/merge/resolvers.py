"""Checks of an article's resolver at publication."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc.drivers.merge import tracking
from twopc.drivers.merge.article_resolver import resolver_of
from twopc.errors import ArticleError
from twopc.merge.articles import MergeArticle
from twopc.merge.resolvers import SQL, SuppliedResolver, check
from twopc.sql.merge_session_texts import SessionTexts

_FUNCTION = """
select n.nspname::text, p.proname::text, p.prokind = 'f' and p.prorettype = 'jsonb'::regtype and not p.proretset
from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
where p.oid = to_regprocedure(%s)
"""


def check_resolver(article: MergeArticle, where: str) -> None:
    """Check that a resolver can be used.

    Raises:
        ArticleError: see `twopc.merge.resolvers.check`; or a user's resolver does not exist (20020).
    """
    if article.options.resolver is None:
        return
    resolver = resolver_of(article.options.resolver, where)
    if isinstance(resolver, SuppliedResolver):
        types = {column.name: column.type for column in article.columns}
        check(resolver, types, where, column_tracking=article.column_tracking)


async def install_resolver(
    connection: AsyncConnection[Any], article: MergeArticle, publication: str, where: str
) -> None:
    """Let agents call a SQL resolver; does nothing for other resolvers.

    Raises:
        ArticleError: the function does not exist, or is not a function from jsonb to jsonb (20020).
    """
    text = article.options.resolver or ""
    if not text.startswith(SQL):
        return
    name = text.removeprefix(SQL)
    try:
        async with connection.transaction():
            cursor = await connection.execute(_FUNCTION, (f"{name}(jsonb)",))
            row = await cursor.fetchone()
    except psycopg.Error as error:
        raise ArticleError(f"{where}: resolver {text!r} (20020): {error}") from error
    if row is None or not row[2] or "." not in name:
        raise ArticleError(
            f"{where}: resolver {text!r} is no function from jsonb to jsonb (20020): create one, and name it with "
            "its schema"
        )
    schema, function, _ = row
    texts = SessionTexts(article, tracking.owner_role(connection.info.dbname), publication)
    for each in texts.ask(sql.Identifier(schema, function), schema):
        await connection.execute(each.encode())
