"""A Subscriber for tests: makes articles of its tables, and plays the agent with calls made by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection, sql

from tests.fix_server import Database
from twopc.articles import Article
from twopc.propagation import TYPE_OF, Propagation, bitmask, parse_method, record_text
from twopc.sql.describe import describe
from twopc.subscriber import propagation as procedures
from twopc.subscriber.objects import owner_role

AGENT = "propagation_agent"
Values = Sequence[object]


def propagation(**methods: str) -> Propagation:
    """``propagation(upd="MCALL", dele="XCALL sp_mine")``; the rest is the default."""
    defaults = {"ins": "CALL", "upd": "SCALL", "dele": "CALL"} | methods
    return Propagation(
        ins=parse_method("ins", defaults["ins"]),
        upd=parse_method("upd", defaults["upd"]),
        dele=parse_method("del", defaults["dele"]),
    )


def call(*values: object) -> bytes:
    """The command that carries these values: None is NULL, bytes is a bitmask, the rest goes by its text."""
    return record_text([_text(value) for value in values])


def _text(value: object) -> bytes | None:
    match value:
        case None:
            return None
        case bytes():
            return b"\\x" + value.hex().encode()
        case _:
            return str(value).encode()


def mask(columns: int, *changed: int) -> bytes:
    """The bitmask of changed columns, numbered from 1 as in the seed."""
    return bitmask([place - 1 for place in changed], columns)


class Here:
    """One Subscriber; `agent` works under the replica role with the rights of agents only."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.owner = owner_role(database.name)
        self.admin: AsyncConnection[Any]
        self.agent: AsyncConnection[Any]

    async def open(self) -> None:
        """Connect, and create what comes before the first article."""
        self.admin = await AsyncConnection.connect(self.database.dsn, autocommit=True)
        known = await self.admin.execute("select from pg_roles where rolname = %s", (AGENT,))
        if not known.rowcount:
            await self.admin.execute(f"create role {AGENT}".encode())
        await self.admin.execute(
            f"grant set on parameter session_replication_role to {AGENT}".encode()
        )
        await procedures.install(self.admin, AGENT)
        self.agent = await AsyncConnection.connect(self.database.dsn, autocommit=True)
        await self.agent.execute(
            f"set role {AGENT}; set session_replication_role = replica".encode()
        )

    async def close(self) -> None:
        """Disconnect."""
        await self.agent.close()
        await self.admin.close()

    async def article(self, table: str, schema: str = "public") -> Article:
        """The article of a table that both ends have alike."""
        found = await describe(self.admin, schema, table)
        return Article(
            schema=schema, table=table, columns=found.columns, key=found.key, uniques=found.uniques
        )

    async def subscribe(
        self,
        statement: str,
        *,
        table: str = "t",
        schema: str = "public",
        article_id: int = 7,
        methods: Mapping[str, str] | None = None,
        article: Article | None = None,
        scripts: Sequence[str] = (),
    ) -> Article:
        """Create a table and its procedures."""
        await self.admin.execute(statement.encode())
        made = article or await self.article(table, schema)
        await procedures.create(
            self.admin, made, article_id, propagation(**(methods or {})), AGENT, scripts=scripts
        )
        return made

    async def apply(self, operation: str, *values: object, article_id: int = 7) -> None:
        """One command, as the agent applies it."""
        await self.apply_text(operation, call(*values), article_id=article_id)

    async def apply_text(self, operation: str, command: bytes, *, article_id: int = 7) -> None:
        """One command as it is stored."""
        function = sql.Identifier(
            "msrepl", procedures.apply_function(article_id, TYPE_OF[operation])
        )
        query = sql.SQL("select {}(%s::text)").format(function)
        await self.agent.execute(query, (command.decode(),))

    async def apply_set(self, operation: str, *calls: Values, article_id: int = 7) -> int:
        """A run of commands; returns what the set function says."""
        function = sql.Identifier("msrepl", procedures.set_function(article_id, TYPE_OF[operation]))
        cursor = await self.agent.execute(
            sql.SQL("select {}(%s::text[])").format(function),
            ([call(*values).decode() for values in calls],),
        )
        row = await cursor.fetchone()
        assert row is not None
        return int(row[0])

    async def fails(self, operation: str, *values: object, article_id: int = 7) -> psycopg.Error:
        """One command that must fail; returns the error."""
        with pytest.raises(psycopg.Error) as caught:
            await self.apply(operation, *values, article_id=article_id)
        return caught.value

    async def rows(self, table: str = "t", columns: str = "*") -> list[tuple[Any, ...]]:
        """What the table holds, in order."""
        cursor = await self.admin.execute(f"select {columns} from {table} order by 1".encode())
        return await cursor.fetchall()
