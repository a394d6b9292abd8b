"""Update mode of each subscription of a distribution database: changes by its Subscriber too, or by agents alone."""

from __future__ import annotations

from typing import Any, Literal

from psycopg import AsyncConnection

UpdateMode = Literal["sync tran", "read only"]


async def update_modes(connection: AsyncConnection[Any], publisher: str) -> dict[str, UpdateMode]:
    """Return the update modes of a Publisher's Subscribers, by name.

    Args:
        publisher: its node name.
    """
    cursor = await connection.execute(
        """
        select s.subscriber, min(s.update_mode)
        from msrepl.mspublisher_databases d
        join msrepl.mssubscriptions s on s.publisher_database_id = d.id
        where d.publisher = %s
        group by s.subscriber
        order by s.subscriber
        """,
        (publisher,),
    )
    return dict(await cursor.fetchall())
