"""A test's tables: created at the Publisher by parts of a template or by functions, published, and subscribed.

Independent of pytest.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from psycopg import sql

from twopc.errors import ConfigurationError, TwopcError
from twopc.sim.merge import MergeTopology
from twopc.sim.sessions.local import result_of
from twopc.sim.sessions.results import Rows
from twopc.sim.testing.addresses import NodeAddress
from twopc.sim.testing.blame import blame
from twopc.sim.testing.templates import SqlAlchemyTables, SqlScript, TemplatePart, named
from twopc.sim.topology import Topology

Load = str | Path | TemplatePart | Callable[..., Any]
"""Part of a template: a file of SQL or a folder of such files; SQL; SQLAlchemy's metadata, or another part of
`twopc.sim.testing.templates`; a function that is passed the topology; or ``module:name`` for one of these.
"""

#: ``module:name``, a form that no SQL has.
_NAMED = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
#: Tables that can be published and are not published yet.
_UNPUBLISHED = """
select n.nspname, c.relname
from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence = 'p'
  and n.nspname not in ('information_schema', 'msrepl', 'msrepl_link', 'msrepl_call') and n.nspname !~ '^(pg_|msrepl_body_)'
  and c.relname not in ('alembic_version', 'django_migrations') -- what was migrated here, and is copied nowhere
  and exists (select from pg_index as i where i.indrelid = c.oid and i.indisprimary)
  and not exists (select from msrepl.sysarticles as a where a.objid = c.oid)
order by c.oid
"""
_RIGHTS = """
select format('grant usage on schema %1$I to %2$I; grant all on all tables in schema %1$I to %2$I; '
              'grant usage on all sequences in schema %1$I to %2$I', n.nspname, r.rolname)
from pg_namespace as n cross join pg_roles as r
where r.rolname = {role} and n.nspname not in ('information_schema', 'msrepl', 'msrepl_link', 'msrepl_call')
  and n.nspname !~ '^(pg_|msrepl_body_)'
"""
_KEY = """
select a.attname from pg_index as i join pg_attribute as a on a.attrelid = i.indrelid and a.attnum = any (i.indkey)
where i.indrelid = to_regclass(%s) and i.indisprimary order by array_position(i.indkey, a.attnum)
"""


async def load(topology: Topology, loads: Sequence[Load], *, publish: Sequence[str] | None) -> None:
    """Create tables at the Publisher, publish them, and subscribe every Subscriber.

    Args:
        publish: ``table`` or ``schema.table``; None: every table that has a primary key.

    Raises:
        ConfigurationError: a part cannot be loaded, or a table not published.
    """
    await make(topology, loads)
    await publish_all(topology, publish)


async def make(topology: Topology | MergeTopology, loads: Sequence[Load]) -> None:
    """Create tables at the Publisher, and grant their use to the application.

    Raises:
        ConfigurationError: a part cannot be loaded.
    """
    for each in loads:
        await _load(topology, each)
    await _grant(topology)


async def publish_all(topology: Topology, publish: Sequence[str] | None) -> None:
    """Publish tables that are not published yet, and deliver them to every Subscriber."""
    if publish is None:
        rows = await topology.execute(topology.publisher, _UNPUBLISHED)
        requested = [(schema, table) for schema, table in rows]
    else:
        requested = [split(name) for name in publish]
    for schema, table in requested:
        await topology.publish(table, schema=schema)
    if not requested:
        return
    for subscriber in topology.subscribers:
        if subscriber not in topology.installer.subscribed:
            await topology.subscribe(subscriber)
        else:
            await topology.refresh_subscriptions(subscriber)


async def open_to_all(topology: Topology, subscribers: Sequence[str]) -> None:
    """Allow any client to write at those of the Subscribers that have subscribed."""
    subscribed = [name for name in subscribers if name in topology.installer.subscribed]
    if subscribed:
        await topology.allow_any_client(*subscribed)


async def statements(topology: Topology, *texts: str) -> None:
    """Run SQL at the Publisher as its administrator; grant the use of the created objects to the application."""
    for text in texts:
        await topology.execute(topology.publisher, text)
    await _grant(topology)


async def rows_by_key(
    topology: Topology | MergeTopology, node: str, table: str, *, hidden: str | None
) -> Rows:
    """Return a table's rows at a node by key, without the hidden column."""
    where = sql.Identifier(*split(table))
    connection = await topology.admin(node)
    keys = await topology.execute(node, _KEY, (where.as_string(connection),))
    order = sql.SQL(", ").join([sql.Identifier(key) for (key,) in keys])
    query = sql.SQL("select * from {} order by {}").format(where, order if keys else sql.SQL("1"))
    result = await result_of(await connection.execute(query))
    return Rows(
        ({name: value for name, value in row.items() if name != hidden} for row in result.rows),
        where=f"{table} at {node}",
    )


async def _grant(topology: Topology | MergeTopology) -> None:
    role = topology.node(topology.publisher).app_role
    texts = await topology.execute(
        topology.publisher, _RIGHTS.format(role="'" + role.replace("'", "''") + "'")
    )
    await topology.execute(topology.publisher, ";".join(text for (text,) in texts))


def split(name: str) -> tuple[str, str]:
    """Return schema and name of ``table`` or ``schema.table``."""
    schema, dot, table = name.rpartition(".")
    return (schema, table) if dot else ("public", name)


async def _load(topology: Topology | MergeTopology, what: Load) -> None:
    if isinstance(what, str):
        what = named(what) if _NAMED.fullmatch(what) else SqlScript(what)
    if isinstance(what, Path):
        what = SqlScript(what)
    if hasattr(what, "create_all"):
        what = SqlAlchemyTables(what)
    if isinstance(what, TemplatePart):
        await what.load(NodeAddress.of_administrator(topology.node(topology.publisher)))
    elif callable(what):
        await _call(topology, what)
    else:
        raise ConfigurationError(
            f"load={what!r}: a template's part is a Path to SQL, SQL, SQLAlchemy's Base.metadata, a function, or "
            "AlembicMigrations('alembic.ini') or DjangoMigrations('shop.settings') of twopc.sim.testing"
        )


async def _call(topology: Topology | MergeTopology, function: Callable[..., Any]) -> None:
    """Call a function; call one that is not a coroutine function in a thread, since ORMs refuse to run on an event
    loop.
    """
    try:
        if inspect.iscoroutinefunction(function):
            made = function(topology)
        else:
            made = await asyncio.to_thread(function, topology)
        if inspect.isawaitable(made):
            await made
    except TwopcError:
        raise
    except Exception as error:
        name = getattr(function, "__qualname__", repr(function))
        raise ConfigurationError(f"load={name}: {blame(error).text()}") from error


def publisher_url(topology: Topology, driver: str = "psycopg") -> str:
    """Return the Publisher's URL for its administrator, for a template's function that creates its own engine."""
    return NodeAddress.of_administrator(topology.node(topology.publisher)).url(driver)
