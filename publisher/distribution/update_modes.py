"""How each subscription of a distribution database is updated: by its Subscriber too, or by agents alone."""

from __future__ import annotations

from typing import Any, Literal

from psycopg import AsyncConnection

UpdateMode = Literal["sync tran", "read only"]


async def update_modes(connection: AsyncConnection[Any], publisher: str) -> dict[str, UpdateMode]:
    """The update modes of a Publisher's Subscribers, by their names.

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
