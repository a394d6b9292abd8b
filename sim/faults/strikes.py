"""Actions on real servers and their backends: end, restart, fill, finish manually.

An action is complete when its function returns: ended backends are gone, a restarted server accepts connections.
Independent of protocol points and scenarios.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import psycopg
from psycopg import sql

from twopc.names import PREFIX, SCHEMA, branch_gid
from twopc.server import EmbeddedServer
from twopc.server.polling import wait_for
from twopc.sim.topology import Topology
from twopc.sim.topology.nodes import Node
from twopc.waits import link_name

Seen = TypeVar("Seen")

#: Backends exit within milliseconds, except on a busy machine.
_GONE_S = 30
_UP_S = 30
#: A backend is identified by PID and start time, since a PID may be reused.
_COORDINATOR_BACKENDS = """
select pid, pid || ' ' || extract(epoch from backend_start) from pg_stat_activity
where datname = current_database() and application_name like %s and right(application_name, length(%s)) = %s
"""
_OF_ROLE = """
select pid || ' ' || extract(epoch from backend_start) from pg_stat_activity where datname = current_database() and usename = %s
"""
_BACKEND = "select pid from pg_stat_activity where pid = %s"
_NAMED = """
select pid, pid || ' ' || extract(epoch from backend_start) from pg_stat_activity
where datname = current_database() and application_name = any (%s)
"""
#: A backend that waits for a lock does not notice that its client is gone.
_REMAINING = """
select pid, application_name, state, wait_event, query from pg_stat_activity
where pid || ' ' || extract(epoch from backend_start) = any (%s) and wait_event_type is distinct from 'Lock'
"""
_SIGNALS = {
    "terminate": "select pg_terminate_backend(%s, 5000)",
    "cancel": "select pg_cancel_backend(%s)",
}
_FILLER = "by_hand_"


async def until(look: Callable[[], Seen], what: str, timeout_s: float = _GONE_S) -> Seen:
    """Wait until `look`, which may block, returns a true value; return that value."""
    return await asyncio.to_thread(wait_for, look, what=what, timeout_s=timeout_s)


def fetch(node: Node, query: str, params: Any = None) -> list[tuple[Any, ...]]:
    """Return a query's rows, over a connection of its own, since servers are restarted."""
    with psycopg.connect(node.dsn, autocommit=True) as connection:
        cursor = connection.execute(query.encode(), params)
        return cursor.fetchall() if cursor.description else []


async def ask(node: Node, query: str, params: Any = None) -> list[tuple[Any, ...]]:
    """Run `fetch` in a thread, without blocking the event loop."""
    return await asyncio.to_thread(fetch, node, query, params)


# -- processes at the servers ----------------------------------------------------------------------


async def processes_of(topology: Topology, *, down: Iterable[str] = ()) -> dict[str, list[str]]:
    """Return the backends that serve the topology's coordinators, and the links of their sessions, by node.

    There must be no coordinator except the one that is struck: backends do not show which coordinator they serve.
    """
    name = f" {topology.name}"
    results: dict[str, list[str]] = {}
    links: list[str] = []
    up = [node for node in topology.nodes if node not in down]
    for node in up:
        rows = await ask(topology.node(node), _COORDINATOR_BACKENDS, (f"{PREFIX} %", name, name))
        results[node] = [process for _, process in rows]
        links += [link_name(node, pid) for pid, _ in rows]
    if topology.publisher in up:
        rows = await ask(topology.node(topology.publisher), _NAMED, (links,))
        results[topology.publisher] += [process for _, process in rows]
    return results


async def processes_of_agent(topology: Topology, subscriber: str) -> dict[str, list[str]]:
    """Return the backends that serve a Subscriber's agent at the Subscriber."""
    node = topology.node(subscriber)
    rows = await ask(node, _OF_ROLE, (node.agent_role,))
    return {subscriber: [process for (process,) in rows]}


async def until_gone(topology: Topology, processes: Mapping[str, list[str]]) -> None:
    """Wait until backends whose client is gone have exited, except those that wait for a lock.

    Raises TimeoutError with a note that lists the remaining ones.
    """
    for name, own in processes.items():
        node = topology.node(name)
        if own:
            try:
                await until(partial(_are_gone, node, own), f"sessions at {name} to end")
            except TimeoutError as error:
                error.add_note(f"there still are {await ask(node, _REMAINING, (own,))}")
                raise


def _are_gone(node: Node, processes: list[str]) -> bool:
    return not fetch(node, _REMAINING, (processes,))


async def backends(topology: Topology, node: str, pids: Mapping[str, int]) -> list[int]:
    """Return the PIDs at a node that work for a transaction with these sessions, by Subscriber.

    At a Subscriber, that of its session; at the Publisher, those of links, and those with which the coordinator
    finishes.
    """
    if node in pids:
        there = await ask(topology.node(node), _BACKEND, (pids[node],))
        return [pid for (pid,) in there]
    if node != topology.publisher:
        return []
    name = f"{PREFIX} finisher {topology.name}"
    names = [name, *(link_name(*place) for place in pids.items())]
    return [result for result, _ in await ask(topology.node(node), _NAMED, (names,))]


async def kill_backends(node: Node, pids: list[int]) -> None:
    """Kill backends with SIGKILL; on return, the server has ended all sessions, recovered and accepts connections."""
    for pid in pids:
        with suppress(ProcessLookupError):  # it has exited meanwhile
            os.kill(pid, signal.SIGKILL)

    def is_up_again() -> bool:
        try:
            return not fetch(node, "select pid from pg_stat_activity where pid = any (%s)", (pids,))
        except psycopg.OperationalError:
            return False

    await until(is_up_again, f"the server of {node.name} to be up again", _UP_S)


async def signal_backends(node: Node, verb: str, pids: list[int]) -> None:
    """Terminate backends, and wait until they have exited; or cancel their statements.

    Args:
        verb: ``terminate`` or ``cancel``; the latter has no effect on idle backends.
    """
    for pid in pids:
        await ask(node, _SIGNALS[verb], (pid,))


# -- servers ---------------------------------------------------------------------------------------


def on_server_of(topology: Topology, node: str) -> list[str]:
    """Return all nodes on a node's server."""
    server = topology.node(node).server
    return [name for name, each in topology.nodes.items() if each.server is server]


async def stop_server(node: Node, how: str) -> None:
    """Shut the server down cleanly (``fast``) or by a simulated crash (``immediate``)."""
    assert isinstance(node.server, EmbeddedServer), "only a server of ours is stopped"
    await asyncio.to_thread(node.server.crash if how == "immediate" else node.server.shut_down)


async def start_server(node: Node) -> None:
    """Start the server again; no effect if it runs."""
    assert isinstance(node.server, EmbeddedServer), "only a server of ours is started"
    if not node.server.is_running():
        await asyncio.to_thread(node.server.restart)


async def repeat(dsn: str, text: str) -> None:
    """Send a request again, over a connection of its own, and discard the answer."""
    statement = text.rstrip("\0")
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        with suppress(psycopg.Error):
            await connection.execute(statement.encode())


# -- manual actions --------------------------------------------------------------------------------


async def forget_markers(topology: Topology, gid: str, *, down: Iterable[str] = ()) -> bool:
    """Delete a transaction's branch markers at every node; return False if there were none."""
    delete = sql.SQL("delete from {} where starts_with(gid, %s) returning gid").format(
        sql.Identifier(SCHEMA, "branch_marker")
    )
    nodes = (topology.publisher, *topology.subscribers)
    lost = [
        await ask(topology.node(name), delete.as_string(None), (f"{gid}:",))
        for name in nodes
        if name not in down
    ]
    return any(lost)


async def finish(topology: Topology, node: str, gid: str, outcome: str) -> bool:
    """Finish a transaction's branch at a node as an uninformed operator would; return False if it does not exist."""
    branch = branch_gid(gid, node)
    prepared = await ask(
        topology.node(node), "select 1 from pg_prepared_xacts where gid = %s", (branch,)
    )
    if not prepared:
        return False
    words = sql.SQL("{} prepared {}").format(sql.SQL(outcome), sql.Literal(branch))
    await ask(topology.node(node), words.as_string(None))
    return True


async def fill_slots(node: Node) -> bool:
    """Prepare transactions until the server has no free slot for another; return False if it had none before."""
    rows = await ask(
        node,
        "select current_setting('max_prepared_transactions')::int - count(*) from pg_prepared_xacts",
    )

    def fill() -> None:
        with psycopg.connect(node.dsn, autocommit=True) as connection:
            for number in range(rows[0][0]):
                gid = sql.Literal(f"{_FILLER}{number}")
                connection.execute("begin")
                connection.execute(sql.SQL("prepare transaction {}").format(gid))

    await asyncio.to_thread(fill)
    return bool(rows[0][0] > 0)


async def free_slots(node: Node) -> None:
    """Roll back the transactions that `fill_slots` has prepared."""

    def free() -> None:
        with psycopg.connect(node.dsn, autocommit=True) as connection:
            rows = connection.execute(
                "select gid from pg_prepared_xacts "
                "where starts_with(gid, %s) and database = current_database()",
                (_FILLER,),
            )
            for (gid,) in rows.fetchall():
                connection.execute(sql.SQL("rollback prepared {}").format(sql.Literal(gid)))

    await asyncio.to_thread(free)


async def lose_decisions(topology: Topology) -> bool:
    """Delete all decisions from the decision log, like a restore of an old backup; epochs stay. Return False if
    there are none.
    """
    delete = sql.SQL("delete from {} where coordinator = %s returning epoch").format(
        sql.Identifier(SCHEMA, "decision")
    )
    node = topology.node(topology.distribution)
    return bool(await ask(node, delete.as_string(None), (topology.name,)))
