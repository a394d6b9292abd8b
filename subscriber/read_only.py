"""Read-only subscriptions: only agents change rows at the Subscriber.

Such a Subscriber has no link, no triggers and no branches, only copies and the registration by which
`twopc.subscriber.subscription.uninstall` removes them. The row version is a column like any other: agents
deliver it with the rows, and nothing compares it, since no change at the Subscriber has to prove which row it
has seen.

Every function takes an administrator's connection and does its work in one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc import names
from twopc.articles import Article
from twopc.errors import SubscriptionError
from twopc.sql import fragments as f
from twopc.sql.catalog_texts import PINNED
from twopc.sql.render import render
from twopc.subscriber.objects import owner_role
from twopc.subscriber.triggers import BranchNames

__all__ = ["install", "install_texts", "subscribe"]

Connection = AsyncConnection[Any]


async def install(connection: Connection, sites: BranchNames, publisher_db: str) -> None:
    """Create the objects that a Subscriber needs before its first article.

    Raises:
        SubscriptionError: the database has a subscription already or publishes tables itself.
    """
    async with connection.transaction():
        texts = install_texts(connection.info.dbname, sites, publisher_db)
        try:
            await connection.execute(";\n".join(texts).encode())
        except psycopg.errors.ObjectNotInPrerequisiteState as error:
            hint = f": {error.diag.message_hint}" if error.diag.message_hint else ""
            raise SubscriptionError(f"{error.diag.message_primary}{hint}") from error


def install_texts(database: str, sites: BranchNames, publisher_db: str) -> list[str]:
    """Return the statements that `install` executes."""
    role = owner_role(database)
    owner = sql.Identifier(role)
    return [
        render(
            "twopc.subscriber",
            "create_owner",
            owner=owner,
            owner_text=sql.Literal(role),
            schema=sql.Identifier(names.SCHEMA),
        ),
        render("twopc.subscriber", "catalog", owner=owner),
        render("twopc", "table_structure", owner=owner, pinned=PINNED),
        render("twopc.subscriber", "drop_triggers", owner=owner),
        render(
            "twopc.subscriber",
            "register_agent",
            publisher=sql.Literal(sites.publisher),
            subscriber=sql.Literal(sites.subscriber),
            publisher_db=sql.Literal(publisher_db),
            server=sql.NULL,
            update_mode=sql.Literal("read only"),
        ),
    ]


async def subscribe(
    connection: Connection,
    article: Article,
    *,
    created_table: bool = False,
    added_version: bool = False,
    added_keys: Sequence[str] = (),
) -> None:
    """Register an existing table, with its rows, as a copy.

    Args:
        created_table, added_version, added_keys: as for `twopc.subscriber.subscription.subscribe`.
    """
    text = render(
        "twopc.subscriber",
        "register_copy",
        table=sql.Literal(f.table_of(article).as_string(connection)),
        schema=sql.Literal(article.schema),
        article=sql.Literal(article.table),
        created_table=sql.Literal(created_table),
        added_version=sql.Literal(added_version),
        added_keys=sql.SQL("array[{}]::text[]").format(
            f.COMMA.join([sql.Literal(key) for key in added_keys])
        ),
    )
    await connection.execute(text.encode())
