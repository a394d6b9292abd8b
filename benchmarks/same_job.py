"""A second yardstick: the job of an immediate update, by hand and without a trigger.

Ten round trips per transaction; the Publisher refuses a row whose version the Subscriber does not have, and the
decision is a row of the distribution database before either branch commits:

1. Subscriber: BEGIN        4. Publisher: BEGIN                  7. distribution database: decision
2. Subscriber: UPDATE       5. Publisher: UPDATE by version      8. Publisher: COMMIT PREPARED
3. Subscriber: PREPARE      6. Publisher: PREPARE                9. Subscriber: COMMIT PREPARED
                                                                10. distribution database: forget

The Subscriber sends its new row and the version of its old one. No recovery, no roles, no loopback marker.
"""

from __future__ import annotations

import itertools
from typing import Any

from psycopg import AsyncConnection

CHANGE = """update checked as c set balance = c.balance + 1, version = gen_random_uuid()
    from checked as o where o.id = c.id and c.id = %s returning o.version, c.version, c.balance"""
APPLY = "update checked set balance = %s, version = %s where id = %s and version = %s"
_sequence = itertools.count(1)


class SameJob:
    """One client with a connection to each database."""

    def __init__(self, *databases: AsyncConnection[Any]) -> None:
        self._publisher, self._subscriber, self._distribution = databases

    @classmethod
    async def connect(cls, publisher: str, subscriber: str, distribution: str) -> SameJob:
        """Connect to all three databases."""
        dsns = (publisher, subscriber, distribution)
        return cls(*[await AsyncConnection.connect(dsn, autocommit=True) for dsn in dsns])

    async def update(self, key: int) -> None:
        """Execute one global transaction that changes one row at both sites.

        Raises:
            RuntimeError: the Publisher has another version of the row; both branches remain as they are.
        """
        gid = f"same:{next(_sequence)}"
        await self._subscriber.execute("begin")
        cursor = await self._subscriber.execute(CHANGE, (key,))
        ((before, version, balance),) = await cursor.fetchall()
        await self._subscriber.execute(f"prepare transaction '{gid}:sub'".encode())
        await self._publisher.execute("begin")
        applied = await self._publisher.execute(APPLY, (balance, version, key, before))
        if applied.rowcount != 1:
            raise RuntimeError(f"row {key} has another version at the Publisher")
        await self._publisher.execute(f"prepare transaction '{gid}:pub'".encode())
        await self._distribution.execute("insert into decided values (%s)", (gid,))
        await self._publisher.execute(f"commit prepared '{gid}:pub'".encode())
        await self._subscriber.execute(f"commit prepared '{gid}:sub'".encode())
        await self._distribution.execute("delete from decided where gid = %s", (gid,))
