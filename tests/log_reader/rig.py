"""A Publisher, a distribution database and a log reader with the privileges of production."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from psycopg import AsyncConnection

from tests.fix_server import Database
from twopc.drivers.points import Points
from twopc.propagation import Propagation
from twopc.publisher import distribution, publication, slot
from twopc.publisher.log_reader import LogReader, LogReaderProfile, PassResult

Connection = AsyncConnection[Any]
Row = tuple[Any, ...]

SLOT = "msrepl_test"
ROLE = "test_logreader"
LINK = "test_link"
PASSWORD = "p"


@dataclass(slots=True, kw_only=True)
class Rig:
    """Both databases as their administrator sees them, and a factory of log readers."""

    publisher: Database
    distribution: Database
    pub: Connection
    dist: Connection
    number: int = 0
    """The Publisher's number in the distribution database."""
    closing: list[LogReader] = field(default_factory=list)

    def reader(
        self,
        *,
        reading: LogReaderProfile | None = None,
        points: Points | None = None,
        slot: str = SLOT,
    ) -> LogReader:
        """Return a log reader that is not open; it is closed with the rig."""
        made = LogReader(
            publisher="pub",
            publisher_dsn=self.dsn(self.publisher),
            distribution_dsn=self.dsn(self.distribution),
            slot=slot,
            reading=reading,
            points=points,
        )
        self.closing.append(made)
        return made

    def dsn(self, database: Database) -> str:
        """Return a connection string for the log reader's role."""
        return database.server.dsn(database.name, ROLE, PASSWORD)

    async def reconnect(self) -> None:
        """Connect again, after the server was down."""
        for connection in (self.pub, self.dist):
            await connection.close()
        self.pub = await AsyncConnection.connect(self.publisher.dsn, autocommit=True)
        self.dist = await AsyncConnection.connect(self.distribution.dsn, autocommit=True)

    async def read(self, **options: Any) -> PassResult:
        """Run one pass of a new log reader."""
        async with self.reader(**options) as reader:
            return await reader.run_once()

    async def publish(
        self, table: str, *, row_filter: str | None = None, propagation: Propagation | None = None
    ) -> None:
        """Publish a table, and register it in the distribution database."""
        await publication.publish(
            self.pub, "public", table, row_filter=row_filter, propagation=propagation
        )
        await self.tell()

    async def tell(self) -> None:
        """Register the current articles in the distribution database."""
        known = await publication.distributed_articles(self.pub)
        await distribution.put_articles(self.dist, self.number, known)

    async def commands(self) -> list[Row]:
        """Return transaction, article, type and text of every command, in order."""
        return await rows(
            self.dist,
            """
            select dense_rank() over (order by xact_seqno)::int, article_id, type, command
            from msrepl.msrepl_commands order by xact_seqno, command_id
            """,
        )

    async def texts(self) -> list[str]:
        """Return the texts of all commands, in order."""
        return [text for *_, text in await self.commands()]

    async def transactions(self) -> list[Row]:
        """Return all columns of every transaction except its position."""
        return await rows(
            self.dist,
            """
            select t.xact_id::text::bigint, o.srvname, t.marks, t.commands,
                   t.bytes = sum(length(c.command)), count(*) = t.commands,
                   array_agg(distinct c.originator_id is not distinct from t.originator_id)
            from msrepl.msrepl_transactions t
            join msrepl.msrepl_commands c using (publisher_database_id, xact_seqno)
            left join msrepl.msrepl_originators o on o.id = t.originator_id
            group by t.xact_seqno, t.xact_id, t.marks, t.commands, t.bytes, o.srvname
            order by t.xact_seqno
            """,
        )

    async def contents(self) -> list[list[Row]]:
        """Return the content of both tables."""
        return [
            await rows(self.dist, f"select * from msrepl.{table} order by 1, 2, 3")
            for table in ("msrepl_transactions", "msrepl_commands")
        ]


async def rows(connection: Connection, query: str, *parameters: Any) -> list[Row]:
    """Return the rows of a query's result."""
    cursor = await connection.execute(query.encode(), parameters or None)
    return await cursor.fetchall()


async def value(connection: Connection, query: str, *parameters: Any) -> Any:
    """Return the only value of a query's result."""
    return (await rows(connection, query, *parameters))[0][0]


@asynccontextmanager
async def rig(publisher: Database, at: Database | None = None) -> AsyncIterator[Rig]:
    """Make a rig; its roles and its slot are dropped at the end, its databases are not.

    Args:
        at: the distribution database; None: the Publisher's own database.
    """
    at = at or publisher
    made = Rig(
        publisher=publisher,
        distribution=at,
        pub=await AsyncConnection.connect(publisher.dsn, autocommit=True),
        dist=await AsyncConnection.connect(at.dsn, autocommit=True),
    )
    try:
        await _roles(made.pub, made.dist)
        await publication.install(made.pub)
        await distribution.install(made.dist, ROLE)
        await publication.admit_log_reader(made.pub, ROLE)
        start = await slot.create(made.pub, SLOT)
        made.number = await distribution.register_publisher(
            made.dist,
            "pub",
            database=publisher.name,
            slot=SLOT,
            read_to=start,
            horizon=await slot.horizon(made.pub),
        )
        yield made
    finally:
        for reader in made.closing:
            await reader.close()
        for (name,) in await rows(
            made.pub,
            "select slot_name from pg_replication_slots where database = current_database()",
        ):
            await slot.drop(made.pub, name)
        for role in (ROLE, LINK):
            for connection in (made.pub, made.dist):
                await connection.execute(f"drop owned by {role}".encode())
            for connection in (made.pub, made.dist):
                await connection.execute(f"drop role if exists {role}".encode())
        for connection in (made.pub, made.dist):
            await connection.close()


async def _roles(pub: Connection, dist: Connection) -> None:
    """Create the roles on both servers, which may be one; each may connect to all databases."""
    for connection in (pub, dist):
        for role, more in ((ROLE, "replication"), (LINK, "")):
            found = await connection.execute("select from pg_roles where rolname = %s", (role,))
            if not found.rowcount:
                await connection.execute(
                    f"create role {role} login {more} password '{PASSWORD}'".encode()
                )
