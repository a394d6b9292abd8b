"""What a test's tables are made from: files, statements, functions, and names of functions.

It must not know pytest.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from twopc.errors import ConfigurationError
from twopc.sim.topology import Topology

Load = str | Path | Callable[..., Any]
"""A file of SQL; SQL itself; a function that gets the `Topology`; or ``module:function`` for one."""

#: Tables that can be published and are not yet.
_UNPUBLISHED = """
select n.nspname, c.relname
from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence = 'p'
  and n.nspname not in ('information_schema', 'msrepl', 'msrepl_link', 'msrepl_call') and n.nspname !~ '^(pg_|msrepl_body_)'
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


async def load(topology: Topology, loads: Sequence[Load], *, publish: Sequence[str] | None) -> None:
    """Make tables at the Publisher, publish them, and have every Subscriber subscribe.

    Args:
        publish: ``table`` or ``schema.table``; None: every table that has a primary key.

    Raises:
        ConfigurationError: something cannot be loaded or published.
    """
    for each in loads:
        await _load(topology, each)
    await _grant(topology)
    await publish_all(topology, publish)


async def publish_all(topology: Topology, publish: Sequence[str] | None) -> None:
    """Publish tables that are not published yet, and bring them to every Subscriber."""
    if publish is None:
        found = await topology.execute(topology.publisher, _UNPUBLISHED)
        wanted = [(schema, table) for schema, table in found]
    else:
        wanted = [_split(name) for name in publish]
    for schema, table in wanted:
        await topology.publish(table, schema=schema)
    if not wanted:
        return
    for subscriber in topology.subscribers:
        if subscriber not in topology.installer.subscribed:
            await topology.subscribe(subscriber)
        else:
            await topology.refresh_subscriptions(subscriber)


async def open_to_all(topology: Topology, subscribers: Sequence[str]) -> None:
    """Let clients without a coordinator write at those that subscribe to something."""
    subscribed = [name for name in subscribers if name in topology.installer.subscribed]
    if subscribed:
        await topology.allow_any_client(*subscribed)


async def statements(topology: Topology, *texts: str) -> None:
    """Run SQL at the Publisher as its administrator; the application may use what it makes."""
    for text in texts:
        await topology.execute(topology.publisher, text)
    await _grant(topology)


async def _grant(topology: Topology) -> None:
    role = topology.node(topology.publisher).app_role
    texts = await topology.execute(
        topology.publisher, _RIGHTS.format(role="'" + role.replace("'", "''") + "'")
    )
    await topology.execute(topology.publisher, ";".join(text for (text,) in texts))


def _split(name: str) -> tuple[str, str]:
    schema, dot, table = name.rpartition(".")
    return (schema, table) if dot else ("public", name)


async def _load(topology: Topology, what: Load) -> None:
    if isinstance(what, Path):
        try:
            text = what.read_text(encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(f"{what} cannot be loaded: {error.strerror}") from error
        await topology.execute(topology.publisher, text)
        return
    if isinstance(what, str):
        function = _function(what)
        if function is None:
            await topology.execute(topology.publisher, what)
            return
        what = function
    made = what(topology)
    if inspect.isawaitable(made):
        await made


def _function(name: str) -> Callable[..., Any] | None:
    """The function that ``module:function`` names; None: it is SQL."""
    module, colon, attribute = name.partition(":")
    if not colon or not attribute.isidentifier() or not module.replace(".", "_").isidentifier():
        return None
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"load={name!r}: {error}") from error
    if not callable(found):
        raise ConfigurationError(f"load={name!r} is no function")
    return found  # type: ignore[no-any-return] # it came out of a module
