"""Publish routines: their definitions, and their calls in place of the rows that they change.

A published routine keeps its name, its OID, its rights and its comment; its new definition calls the original body
between two call markers in the log. The package knows of Subscribers only whether some take calls. Every
function takes an administrator's connection (a superuser's) and does its work in one transaction.

Source: seed 004.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from twopc import names
from twopc.errors import ArticleError
from twopc.lexer import ends_transaction
from twopc.proc_execution import ProcArticle, ProcType, ProcWarning
from twopc.publisher.proc_execution.articles import (
    CatalogRoutine,
    arguments_of,
    check,
    check_calls,
    check_tables,
    find_routine,
    stored,
)
from twopc.publisher.proc_execution.examine import examine
from twopc.publisher.proc_execution.texts import RoutineTexts, drop_texts
from twopc.sql.catalog_texts import full_names
from twopc.sql.render import render

__all__ = [
    "alter_procedure",
    "examine",
    "examine_again",
    "find",
    "proc_articles",
    "publish_procedure",
    "set_called",
    "unpublish_procedure",
]

Connection = AsyncConnection[Any]


async def publish_procedure(
    connection: Connection,
    schema: str,
    name: str,
    *,
    signature: str | None = None,
    type: ProcType = ProcType.SERIALIZABLE,
    reads: Sequence[str] | None = None,
    writes: Sequence[str] | None = None,
    xact_abort: bool = True,
    commits: bool | None = None,
    replicate_ddl: bool = True,
) -> ProcArticle:
    """Make a procedure or function an article.

    Its calls are sent as rows until `set_called` names it.

    Args:
        signature: its argument types, as in ALTER; needed if the name is overloaded.
        reads, writes: articles (``table`` or ``schema.table``) that it reads and writes; None for any. The
            snapshot rule and the search for obstacles are then limited to these tables.
        xact_abort: whether an error is raised to the caller. If False, an error undoes the whole call (in the
            original only the failing statement) and becomes a warning, and the call is sent nevertheless.
        commits: whether it ends transactions, so that its calls are sent as rows; None to examine its text.
        replicate_ddl: whether CREATE OR REPLACE is sent to Subscribers.

    Raises:
        ArticleError: the routine cannot be published in this way. Nothing is changed.
    """
    type = ProcType(type)
    async with connection.transaction():
        routine = await find_routine(connection, schema, name, signature)
        check(routine)
        await _check_new(connection, routine)
        if commits is None:
            commits = routine.kind == "p" and bool(ends_transaction(routine.source))
        if type is not ProcType.SCHEMA_ONLY:
            _check_calls(routine, type, commits=commits, xact_abort=xact_abort)
        await check_tables(connection, (*(reads or ()), *(writes or ())))
        article = ProcArticle(
            article_id=0,
            schema=routine.schema,
            name=routine.name,
            kind=routine.kind,
            arguments=arguments_of(routine),
            returns_set=routine.returns_set,
            type=type,
            reads=None if reads is None else tuple(reads),
            writes=None if writes is None else tuple(writes),
            xact_abort=xact_abort,
            commits=commits,
            replicate_ddl=replicate_ddl,
            definition=routine.definition,
        )
        article = await _register(connection, article, routine)
        if type is not ProcType.SCHEMA_ONLY and not commits:
            await _wrap(connection, article, routine)
        await connection.execute(
            "update msrepl.sysprocarticles set working = false where article_id = %s",
            (article.article_id,),
        )
        await connection.execute(render("twopc.publisher", "proc_guard_triggers").encode())
        return article


def _check_calls(
    routine: CatalogRoutine, type: ProcType, *, commits: bool, xact_abort: bool
) -> None:
    """Check that a routine can be called in this way at a Subscriber."""
    check_calls(routine)
    if type is ProcType.SERIALIZABLE and commits:
        raise ArticleError(
            f"{_where(routine)} ends transactions, and a serializable call is one: publish it as "
            f"{ProcType.PLAIN!s}, where each of its transactions travels as rows, or without COMMIT and "
            "ROLLBACK"
        )
    if routine.returns_set and not xact_abort:
        raise ArticleError(
            f"function {_where(routine)} returns rows, some of them before an error: leave xact_abort on"
        )


async def _check_new(connection: Connection, routine: CatalogRoutine) -> None:
    cursor = await connection.execute(
        "select type from msrepl.sysprocarticles where objid = %s", (routine.objid,)
    )
    row = await cursor.fetchone()
    if row is not None:
        raise ArticleError(
            f"{_where(routine)} is published already, as {row[0]} (21024): `twopc procedure unpublish` it first"
        )


def _where(routine: CatalogRoutine) -> str:
    return f"{names.article_name(routine.schema, routine.name)}({routine.identity})"


async def _register(
    connection: Connection, article: ProcArticle, routine: CatalogRoutine
) -> ProcArticle:
    """Insert the article; return it with its number and its warnings."""
    cursor = await connection.execute(
        """
        insert into msrepl.sysprocarticles
            (objid, schema, name, kind, arguments, returns_set, type, reads, writes, xact_abort, commits,
             replicate_ddl, definition, working)
        values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, true)
        returning article_id
        """,
        (
            routine.objid,
            article.schema,
            article.name,
            article.kind,
            Jsonb(routine.arguments),
            article.returns_set,
            str(article.type),
            None if article.reads is None else list(article.reads),
            None if article.writes is None else list(article.writes),
            article.xact_abort,
            article.commits,
            article.replicate_ddl,
            article.definition,
        ),
    )
    row = await cursor.fetchone()
    assert row is not None
    return await _examined(connection, dataclasses.replace(article, article_id=row[0]))


async def _examined(connection: Connection, article: ProcArticle) -> ProcArticle:
    obstacle, warnings = await examine(connection, article)
    article = dataclasses.replace(article, obstacle=obstacle, warnings=warnings)
    await connection.execute(
        "update msrepl.sysprocarticles set (obstacle, warnings) = (%s, %s) where article_id = %s",
        (obstacle, Jsonb(article.as_json()["warnings"]), article.article_id),
    )
    return article


async def examine_again(
    connection: Connection,
) -> list[tuple[ProcArticle, tuple[ProcWarning, ...]]]:
    """Examine every routine in its current state and that of the tables.

    Its text may have changed, or the filters and published columns of tables.

    Returns:
        The routines with new warnings, and these warnings.
    """
    results = []
    for before in await proc_articles(connection):
        now = await _examined(connection, before)
        new = tuple(each for each in now.warnings if each not in before.warnings)
        if new:
            results.append((now, new))
    return results


async def _wrap(connection: Connection, article: ProcArticle, routine: CatalogRoutine) -> None:
    """Create the body, the runner and the definition that calls the runner."""
    texts = RoutineTexts(article, routine.signature)
    async with full_names(connection):
        await connection.execute("set local check_function_bodies = off")
        for text in texts.all():
            await connection.execute(text.encode())
        await connection.execute("set local check_function_bodies = on")
    await connection.execute(
        """
        update msrepl.sysprocarticles a set wrapper_source = p.prosrc
        from pg_proc p where p.oid = a.objid and a.article_id = %s
        """,
        (article.article_id,),
    )
    await connection.execute("select msrepl.proc_fit_body(%s)", (article.article_id,))


async def unpublish_procedure(connection: Connection, article_id: int) -> None:
    """Restore a routine's original definition, and remove its article.

    Raises:
        ArticleError: the article does not exist.
    """
    async with connection.transaction():
        # calls have ended, and none begins before this transaction ends
        await connection.execute("select pg_advisory_xact_lock(1836282470, %s)", (article_id,))
        await connection.execute(
            "update msrepl.sysprocarticles set working = true where article_id = %s", (article_id,)
        )
        cursor = await connection.execute(
            "select definition, wrapper_source is not null from msrepl.sysprocarticles where article_id = %s",
            (article_id,),
        )
        row = await cursor.fetchone()
        if row is None:
            raise ArticleError(f"no routine is published as article {article_id}")
        definition, wrapped = row
        if wrapped:
            async with full_names(connection):
                await connection.execute("set local check_function_bodies = off")
                await connection.execute(definition.encode())
                await connection.execute("set local check_function_bodies = on")
            for text in drop_texts(article_id):
                await connection.execute(text.encode())
        await connection.execute(
            "delete from msrepl.sysprocarticles where article_id = %s", (article_id,)
        )
        left = await connection.execute("select from msrepl.sysprocarticles limit 1")
        if not left.rowcount:
            await connection.execute("drop event trigger if exists msrepl_proc_ddl_guard")
            await connection.execute("drop event trigger if exists msrepl_proc_drop_guard")


async def proc_articles(connection: Connection) -> tuple[ProcArticle, ...]:
    """Return all published routines, in the order of publication."""
    return await stored(connection, "order by article_id")


async def find(
    connection: Connection, schema: str, name: str, signature: str | None = None
) -> ProcArticle:
    """Return the article of a routine.

    Raises:
        ArticleError: the routine does not exist, is not published, or the name is overloaded.
    """
    routine = await find_routine(connection, schema, name, signature)
    result = await stored(connection, "where objid = %s", routine.objid)
    if not result:
        everything = ", ".join(each.identity for each in await proc_articles(connection))
        raise ArticleError(
            f"{_where(routine)} is not published; published routines are {everything or 'none'}"
        )
    return result[0]


async def set_called(connection: Connection, article_ids: Collection[int]) -> None:
    """Set the routines whose calls Subscribers take; calls of all other routines are sent as rows."""
    await connection.execute(
        """
        update msrepl.sysprocarticles set called = article_id = any (%(wanted)s)
        where called is distinct from (article_id = any (%(wanted)s))
        """,
        {"wanted": list(article_ids)},
    )


async def alter_procedure(
    connection: Connection, article_id: int, *, replicate_ddl: bool
) -> ProcArticle:
    """Set whether new definitions are sent to Subscribers. The type cannot change: unpublish the routine first.

    Raises:
        ArticleError: the article does not exist.
    """
    async with connection.transaction():
        await connection.execute(
            "update msrepl.sysprocarticles set replicate_ddl = %s where article_id = %s",
            (replicate_ddl, article_id),
        )
        result = await stored(connection, "where article_id = %s", article_id)
        if not result:
            raise ArticleError(f"no routine is published as article {article_id}")
        return result[0]
