"""A Publisher's database and the changes in its log, as messages, rows and commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection

from twopc.distributed_article import DistributedArticle
from twopc.publisher import publication
from twopc.publisher.commands import Belonging, Command, CommandBuilder
from twopc.publisher.filters import RowFilters
from twopc.publisher.logical_publication import NAME
from twopc.publisher.pgoutput import Decoder, RowMessage

#: Settings as the log reader sets them.
_OUTPUT = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "client_encoding": "UTF8",
}


class Logged:
    """A database that publishes, with a slot."""

    def __init__(self, connection: AsyncConnection[Any], reader: AsyncConnection[Any]) -> None:
        self.connection = connection
        self.reader = reader

    @classmethod
    async def open(cls, dsn: str) -> Logged:
        """Install the publication, and create the slot."""
        connection = await AsyncConnection.connect(dsn, autocommit=True)
        await publication.install(connection)
        reader = await AsyncConnection.connect(dsn, autocommit=True)
        for name, value in _OUTPUT.items():
            await reader.execute("select set_config(%s, %s, false)", (name, value))
        await reader.execute(
            "select pg_create_logical_replication_slot(%s, 'pgoutput')", (cls.slot(connection),)
        )
        return cls(connection, reader)

    @staticmethod
    def slot(connection: AsyncConnection[Any]) -> str:
        """Return the slot's name, which is unique in the cluster."""
        return f"of_{connection.info.dbname}"

    async def close(self) -> None:
        """Drop the slot, which would keep the log, and disconnect."""
        await self.reader.execute(
            "select pg_drop_replication_slot(%s)", (self.slot(self.connection),)
        )
        await self.reader.close()
        await self.connection.close()

    async def execute(self, statement: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        """Execute SQL as the administrator."""
        cursor = await self.connection.execute(statement.encode(), parameters)
        return await cursor.fetchall() if cursor.description else []

    async def messages(self) -> list[bytes]:
        """Return the messages in the log since the last call."""
        cursor = await self.reader.execute(
            """
            select data from pg_logical_slot_get_binary_changes(
                %s, null, null, 'proto_version', '1', 'publication_names', %s)
            """,
            (self.slot(self.connection), NAME),
        )
        return [bytes(data) for (data,) in await cursor.fetchall()]

    async def changes(self) -> list[RowMessage]:
        """Return the changed rows since the last call."""
        decoder = Decoder()
        decoded = [decoder.decode(message) for message in await self.messages()]
        return [each for each in decoded if isinstance(each, RowMessage)]

    async def commands(self, articles: Sequence[DistributedArticle] | None = None) -> list[Command]:
        """Return the commands of every article since the last call, with filters evaluated.

        Args:
            articles: None: the current articles.
        """
        if articles is None:
            articles = await publication.distributed_articles(self.connection)
        builder = CommandBuilder(articles)
        changes = await self.changes()
        belongings: Sequence[Belonging] = [()] * len(changes)
        if builder.has_filters:
            belongings = await RowFilters(self.reader, builder).belongings(changes)
        return [
            command
            for change, belonging in zip(changes, belongings, strict=True)
            for command in builder.commands(change, belonging)
        ]
