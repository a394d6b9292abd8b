"""The witness: triggers on published tables that detect changes made by other triggers of the Publisher.

A Subscriber gets back what the Publisher stored in the rows that it sent, and nothing else of its own
transactions. So the witness refuses a trigger, by name, that changes other published rows within such a
transaction. As detection has a cost, it is active only if such a trigger may exist.
"""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, sql

from twopc import names
from twopc.publisher.catalog import guard, stored_articles, unguard
from twopc.sql import fragments as f
from twopc.sql.describe import describe
from twopc.sql.render import render

Connection = AsyncConnection[Any]

# Whether there is a user's trigger on a published table or its partitions, or a referential action on a
# table that may have one.
_MAY_CHANGE = """
select exists (
    select from msrepl.sysarticles a
    join pg_trigger t on t.tgrelid = a.objid
                      or t.tgrelid in (select p.relid from pg_partition_tree(a.objid) p)
    join pg_proc p on p.oid = t.tgfoid
    where not t.tgisinternal and t.tgenabled in ('O', 'A') and p.pronamespace <> 'msrepl'::regnamespace
) or exists (
    select from msrepl.sysarticles a
    join pg_constraint c on c.confrelid = a.objid and c.contype = 'f'
    where (c.confdeltype in ('c', 'n', 'd') or c.confupdtype in ('c', 'n', 'd'))
      and c.conrelid not in (select b.objid from msrepl.sysarticles b)
)
"""

_WITNESSES = """
select format('drop trigger %I on %s', t.tgname, t.tgrelid::regclass)
from pg_trigger t
where t.tgfoid = 'msrepl.witness'::regproc and t.tgparentid = 0
"""


async def fit(connection: Connection) -> None:
    """Create the witness on every published table, or on none, depending on the existing triggers."""
    await unguard(connection)
    await _fit(connection)
    await guard(connection)


async def _fit(connection: Connection) -> None:
    for (command,) in await (await connection.execute(_WITNESSES)).fetchall():
        await connection.execute(command)
    row = await (await connection.execute(_MAY_CHANGE)).fetchone()
    if row is None or not row[0]:
        return
    for stored in await stored_articles(connection, "where a.stale is null"):
        if stored.schema is None or stored.table is None:
            continue
        table = await describe(connection, stored.schema, stored.table)
        arguments = [names.article_name(table.schema, table.name), *table.key]
        await connection.execute(
            render(
                "twopc.publisher",
                "witness_trigger",
                trigger=sql.Identifier(names.witness_trigger(table.schema, table.name)),
                table=f.qualified(table.schema, table.name),
                arguments=f.COMMA.join([sql.Literal(argument) for argument in arguments]),
            )
        )
