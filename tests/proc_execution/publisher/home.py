"""The Publisher of tests of published routines."""

from __future__ import annotations

import json
from typing import Any

from psycopg import AsyncConnection

from twopc.proc_execution import ProcArticle
from twopc.publisher import proc_execution, publication

Row = tuple[Any, ...]

_EMP = """
create table emp (id int primary key, salary numeric not null);
insert into emp select g, 100 * g from generate_series(1, 3) as g
"""
#: The first example of the field's literature.
GIVE_RAISE = """
create procedure give_raise(pct numeric) language sql
as $$ update emp set salary = salary * (100 + pct) / 100 $$
"""


class Home:
    """A database that publishes, and its administrator's connection."""

    def __init__(self, connection: AsyncConnection[Any], dsn: str) -> None:
        self.connection = connection
        self.dsn = dsn

    @classmethod
    async def open(cls, dsn: str) -> Home:
        """Install the publication, and publish the table."""
        connection = await AsyncConnection.connect(dsn, autocommit=True)
        await publication.install(connection)
        await connection.execute(_EMP.encode())
        await publication.publish(connection, "public", "emp")
        return cls(connection, dsn)

    async def close(self) -> None:
        """Close the connection."""
        await self.connection.close()

    async def another(self) -> AsyncConnection[Any]:
        """Return a further connection, which the caller closes."""
        return await AsyncConnection.connect(self.dsn, autocommit=True)

    async def publish(self, text: str, name: str = "give_raise", **options: Any) -> ProcArticle:
        """Create a routine, publish it, and store its calls."""
        await self.connection.execute(text.encode())
        schema = options.pop("schema", "public")
        article = await proc_execution.publish_procedure(self.connection, schema, name, **options)
        await self.take()
        return article

    async def take(self) -> None:
        """Store the calls of all published routines."""
        known = await proc_execution.proc_articles(self.connection)
        await proc_execution.set_called(self.connection, [each.article_id for each in known])

    async def rows(self, query: str) -> list[Row]:
        """Return the rows of a query's result."""
        return await (await self.connection.execute(query.encode())).fetchall()

    async def serializable(self, *statements: str) -> None:
        """Run a serializable transaction."""
        text = "; ".join(["begin isolation level serializable", *statements, "commit"])
        await self.connection.execute(text.encode())

    async def marks(self) -> list[Row]:
        """Return article, begin or end, and failure of every call marker, in order."""
        return await self.rows(
            """
            select article_id, case when opened is null then 'open' else 'close' end, failure
            from msrepl.call_marker order by id
            """
        )

    async def calls(self) -> list[dict[str, Any]]:
        """Return what is stored of every call."""
        found = await self.rows(
            "select call from msrepl.call_marker where opened is null order by id"
        )
        return [json.loads(call) for (call,) in found]
