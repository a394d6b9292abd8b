"""A Subscriber for tests, which creates articles of its tables and acts as an agent with manual calls."""

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
    """Return an article's methods, as in ``propagation(upd="MCALL", dele="XCALL sp_mine")``, or the defaults."""
    defaults = {"ins": "CALL", "upd": "SCALL", "dele": "CALL"} | methods
    return Propagation(
        ins=parse_method("ins", defaults["ins"]),
        upd=parse_method("upd", defaults["upd"]),
        dele=parse_method("del", defaults["dele"]),
    )


def call(*values: object) -> bytes:
    """Return the command with these values: None is NULL, bytes are a bitmask, other values become text."""
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
    """Return the bitmask of the changed columns, which are numbered from 1 as in the seed."""
    return bitmask([place - 1 for place in changed], columns)


class Here:
    """One Subscriber; `agent` is a connection in the replica role with an agent's privileges only."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.owner = owner_role(database.name)
        self.admin: AsyncConnection[Any]
        self.agent: AsyncConnection[Any]

    async def open(self) -> None:
        """Connect, and create the objects that the first article needs."""
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
        """Return the article of a table that is the same at both ends."""
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
        """Create a table and its procedures; return the article."""
        await self.admin.execute(statement.encode())
        made = article or await self.article(table, schema)
        await procedures.create(
            self.admin, made, article_id, propagation(**(methods or {})), AGENT, scripts=scripts
        )
        return made

    async def apply(self, operation: str, *values: object, article_id: int = 7) -> None:
        """Apply one command as an agent does."""
        await self.apply_text(operation, call(*values), article_id=article_id)

    async def apply_text(self, operation: str, command: bytes, *, article_id: int = 7) -> None:
        """Apply one command in its stored form."""
        function = sql.Identifier(
            "msrepl", procedures.apply_function(article_id, TYPE_OF[operation])
        )
        query = sql.SQL("select {}(%s::text)").format(function)
        await self.agent.execute(query, (command.decode(),))

    async def apply_set(self, operation: str, *calls: Values, article_id: int = 7) -> int:
        """Apply a run of commands; return the result of the set function."""
        function = sql.Identifier("msrepl", procedures.set_function(article_id, TYPE_OF[operation]))
        cursor = await self.agent.execute(
            sql.SQL("select {}(%s::text[])").format(function),
            ([call(*values).decode() for values in calls],),
        )
        row = await cursor.fetchone()
        assert row is not None
        return int(row[0])

    async def fails(self, operation: str, *values: object, article_id: int = 7) -> psycopg.Error:
        """Apply one command that must fail; return the error."""
        with pytest.raises(psycopg.Error) as caught:
            await self.apply(operation, *values, article_id=article_id)
        return caught.value

    async def rows(self, table: str = "t", columns: str = "*") -> list[tuple[Any, ...]]:
        """Return the table's rows in order."""
        cursor = await self.admin.execute(f"select {columns} from {table} order by 1".encode())
        return await cursor.fetchall()
