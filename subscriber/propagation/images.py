"""Row types that let the user's procedures take whole images of a row as arguments.

The types outlive the other objects of an article, because dropping a type would drop a user's procedure that has
a parameter of the type: they are altered when the table is altered, and dropped only with the subscription.
"""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.rows import tuple_row

from twopc import names
from twopc.log import get_logger
from twopc.sql import fragments as f
from twopc.subscriber.propagation.calls import Calls, own_object

Connection = AsyncConnection[Any]

_log = get_logger(__name__)

_ATTRIBUTES = """
select a.attname::text, format_type(a.atttypid, a.atttypmod)
from pg_type t
join pg_attribute a on a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
where t.typname = %s and t.typnamespace = to_regnamespace(%s)
order by a.attnum
"""

_ROUTINES = """
select distinct p.oid::regprocedure::text
from pg_type t
join pg_proc p on t.oid = any (p.proargtypes::oid[])
where t.typname = any (%s) and t.typnamespace = to_regnamespace(%s)
order by 1
"""


async def fit_images(connection: Connection, calls: Calls) -> None:
    """Create the image types that procedures of this article need, or alter existing ones to fit the article."""
    for name, attributes in calls.images().items():
        cursor = connection.cursor(row_factory=tuple_row)
        await cursor.execute(_ATTRIBUTES, (name, names.SCHEMA))
        held: dict[str, str] = dict(await cursor.fetchall())
        if not held:
            await connection.execute(calls.image_type(name).encode())
            continue
        requested = dict(attributes)
        # attributes are numbered, so additions and removals are at the end
        actions = [
            sql.SQL("drop attribute {}").format(sql.Identifier(each))
            for each in held
            if each not in requested
        ]
        actions += [
            sql.SQL("alter attribute {} type {}" if each in held else "add attribute {} {}").format(
                sql.Identifier(each), f.raw(kind)
            )
            for each, kind in requested.items()
            if held.get(each) != kind
        ]
        if actions:
            await connection.execute(
                sql.SQL("alter type {} {}").format(own_object(name), f.COMMA.join(actions))
            )


async def drop_images(connection: Connection, article_id: int) -> None:
    """Drop the image types of an article, and with them the user's procedures that take them; log their names."""
    types = [f"image_{article_id}", f"key_{article_id}"]
    cursor = connection.cursor(row_factory=tuple_row)
    await cursor.execute(_ROUTINES, (types, names.SCHEMA))
    gone = [row[0] for row in await cursor.fetchall()]
    for name in types:
        await connection.execute(sql.SQL("drop type if exists {} cascade").format(own_object(name)))
    if gone:
        _log.warning(
            "custom procedures went with the row types that they take", procedures=", ".join(gone)
        )
