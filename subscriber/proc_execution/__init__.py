"""Routines at a Subscriber: defined as at the Publisher, and called if a call was stored instead of its rows.

The package knows of the agent only its role, and of the Publisher only the articles that it is given. Every
function takes an administrator's connection (a superuser's) and does its work in one transaction.

Source: seed 004.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc import names
from twopc.errors import SubscriptionError
from twopc.log import get_logger
from twopc.proc_execution import ProcArticle
from twopc.sql import fragments as f
from twopc.sql.catalog_texts import full_names
from twopc.subscriber.objects import owner_role
from twopc.subscriber.proc_execution.texts import (
    apply_call_function,
    apply_definition_function,
    call_text,
    definition_text,
    shared_texts,
)

__all__ = ["apply_call_function", "apply_definition_function", "create", "drop", "drop_all"]

Connection = AsyncConnection[Any]

_log = get_logger(__name__)

_THERE = """
select pg_get_functiondef(p.oid), pg_get_userbyid(p.proowner)::text, md5(p.prosrc), p.prokind::text
from pg_proc p where p.oid = to_regprocedure(%s)
"""
_KNOWN = """
select digest, before, before_owner from msrepl.msreplication_proc_articles where article_id = %s
"""
_REGISTER = """
insert into msrepl.msreplication_proc_articles
    (article_id, dest_schema, name, kind, identity, takes_calls, before, before_owner, agent)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s)
on conflict (article_id) do update
set (dest_schema, name, kind, identity, takes_calls, agent)
  = (excluded.dest_schema, excluded.name, excluded.kind, excluded.identity, excluded.takes_calls,
     excluded.agent)
"""


async def create(connection: Connection, article: ProcArticle, agent: str, *, call: bool) -> None:
    """Define a routine as at the Publisher, and create the functions that agents call for it.

    A changed definition at the Subscriber is overwritten, and the log says so.

    Args:
        agent: the role of distribution agents.
        call: whether the Subscriber takes calls; if False, it takes definitions only.

    Raises:
        SubscriptionError: the routine cannot be defined at the Subscriber; nothing was changed.
    """
    role = owner_role(connection.info.dbname)
    owner, to = sql.Identifier(role), sql.Identifier(agent)
    calls = names.calls_role(role)
    where = f"{article.identity} cannot be defined at {connection.info.dbname!r}"
    async with connection.transaction():
        texts = [*shared_texts(owner), *_rights(article, owner, sql.Identifier(calls))]
        await connection.execute(";\n".join(texts).encode())
        there = await _there(connection, article)
        known = await (await connection.execute(_KNOWN, (article.article_id,))).fetchone()
        before: tuple[str, str] | tuple[None, None] = (None, None)
        if there is not None:
            if there[3] != article.kind:
                raise SubscriptionError(
                    f"{where}: what is there is another kind of routine; drop it"
                )
            if known is None:
                before = there[:2]
            elif known[0] != there[2]:
                _log.warning(
                    "a routine that was changed here is the Publisher's again",
                    routine=article.identity,
                    database=connection.info.dbname,
                )
            command = sql.SQL("alter routine {} owner to {}")
            await connection.execute(command.format(f.raw(article.identity), owner))
        await connection.execute(
            _REGISTER,
            (
                article.article_id,
                article.schema,
                article.name,
                article.kind,
                article.identity,
                call,
                *before,
                calls,
            ),
        )
        texts = [definition_text(article, owner, to)]
        if call:
            texts.append(call_text(article, calls, to))
        await connection.execute(";\n".join(texts).encode())
        try:
            await connection.execute(
                "select msrepl.define_routine(%s, %s)", (article.article_id, article.definition)
            )
        except psycopg.Error as error:
            raise SubscriptionError(
                f"{where}: {error.diag.message_primary}; create what it needs there first"
            ) from error


async def _there(connection: Connection, article: ProcArticle) -> tuple[str, str, str, str] | None:
    """Return definition, owner, digest and kind of the existing routine with the same identity."""
    async with full_names(connection):
        cursor = await connection.execute(_THERE, (article.identity,))
        row: tuple[str, str, str, str] | None = await cursor.fetchone()
        return row


def _rights(article: ProcArticle, owner: sql.Identifier, calls: sql.Identifier) -> list[str]:
    """Return statements that grant the rights to define and to call routines in a schema."""
    schema = sql.Identifier(article.schema)
    return [
        text.format(schema=schema, owner=owner, calls=calls).as_string(None)
        for text in (
            sql.SQL("create schema if not exists {schema}"),
            sql.SQL("grant usage, create on schema {schema} to {owner}"),
            sql.SQL("grant usage on schema {schema} to {calls}"),
        )
    ]


async def drop(connection: Connection, article_id: int) -> None:
    """Drop a routine, or restore its previous definition; does nothing if the routine was not created by `create`.

    A routine on which other objects depend stays, and its ownership passes to the administrator.
    """
    async with connection.transaction():
        cursor = await connection.execute(
            """
            delete from msrepl.msreplication_proc_articles where article_id = %s
            returning to_regprocedure(identity)::oid, identity, dest_schema, before, before_owner, agent
            """,
            (article_id,),
        )
        row = await cursor.fetchone()
        if row is None:
            return
        there, identity, schema, before, before_owner, agent = row
        functions = [apply_call_function(article_id), apply_definition_function(article_id)]
        for function in functions:
            await connection.execute(
                sql.SQL("drop function if exists {}(text)").format(
                    sql.Identifier(names.SCHEMA, function)
                )
            )
        if there is not None:
            await _restore(connection, identity, before, before_owner, agent)
        await _revoke(connection, schema, agent)


async def _restore(
    connection: Connection, identity: str, before: str | None, owner: str | None, agent: str
) -> None:
    routine = f.raw(identity)
    revoke = sql.SQL("revoke all on routine {} from {}").format(routine, sql.Identifier(agent))
    await connection.execute(revoke)
    give = sql.SQL("alter routine {} owner to {}")
    if before is not None:
        async with full_names(connection):
            await connection.execute("set local check_function_bodies = off")
            await connection.execute(before.encode())
        await connection.execute(give.format(routine, sql.Identifier(str(owner))))
        return
    try:
        async with connection.transaction():
            await connection.execute(sql.SQL("drop routine {}").format(routine))
    except psycopg.errors.DependentObjectsStillExist:
        await connection.execute(give.format(routine, sql.SQL("current_user")))


async def _revoke(connection: Connection, schema: str, agent: str) -> None:
    """Revoke rights on a schema that no other article needs."""
    cursor = await connection.execute(
        """
        select exists (select from msrepl.msreplication_proc_articles where dest_schema = %(schema)s),
            exists (select from msrepl.msreplication_objects where dest_schema = %(schema)s)
        """,
        {"schema": schema},
    )
    routines, tables = await cursor.fetchone() or (False, False)
    owner = sql.Identifier(owner_role(connection.info.dbname))
    if not routines:
        await connection.execute(
            sql.SQL("revoke create on schema {} from {}").format(sql.Identifier(schema), owner)
        )
    if not (routines or tables):
        await connection.execute(
            sql.SQL("revoke usage on schema {} from {}, {}").format(
                sql.Identifier(schema), owner, sql.Identifier(agent)
            )
        )


async def drop_all(connection: Connection) -> None:
    """Drop every routine of the subscription; does nothing if there are none."""
    there = await connection.execute(
        "select from pg_class where oid = to_regclass('msrepl.msreplication_proc_articles')"
    )
    if not there.rowcount:
        return
    cursor = await connection.execute("select article_id from msrepl.msreplication_proc_articles")
    for (article_id,) in await cursor.fetchall():
        await drop(connection, article_id)
