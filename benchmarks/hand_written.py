"""The yardstick: a serial two-phase commit loop, as one would write it by hand in psycopg.

Eight round trips per transaction, no triggers, no conflict check, no decision log:

1. Publisher: BEGIN            4. Subscriber: BEGIN            7. Publisher: COMMIT PREPARED
2. Publisher: UPDATE           5. Subscriber: UPDATE           8. Subscriber: COMMIT PREPARED
3. Publisher: PREPARE          6. Subscriber: PREPARE

It is not tuned together with the product: this file does not change.
"""

from __future__ import annotations

import itertools
from typing import Any

from psycopg import AsyncConnection

UPDATE = "update plain set balance = balance + 1 where id = %s"
_sequence = itertools.count(1)


class HandWritten:
    """One client with a connection to each site."""

    def __init__(self, publisher: AsyncConnection[Any], subscriber: AsyncConnection[Any]) -> None:
        self._sites = (publisher, subscriber)

    @classmethod
    async def connect(cls, publisher: str, subscriber: str) -> HandWritten:
        """Connect to both."""
        return cls(
            await AsyncConnection.connect(publisher, autocommit=True),
            await AsyncConnection.connect(subscriber, autocommit=True),
        )

    async def update(self, key: int) -> None:
        """One global transaction that changes one row at both sites."""
        gid = f"hand:{next(_sequence)}"
        for place, site in enumerate(self._sites):
            await site.execute("begin")
            await site.execute(UPDATE, (key,))
            await site.execute(f"prepare transaction '{gid}:{place}'".encode())
        for place, site in enumerate(self._sites):
            await site.execute(f"commit prepared '{gid}:{place}'".encode())

    async def close(self) -> None:
        """Disconnect."""
        for site in self._sites:
            await site.close()
