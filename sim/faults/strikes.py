"""What can be done to real servers and to the processes in them: end, restart, fill, finish by hand.

Each is done when it returns: whoever was ended is gone, whoever was restarted lets people in again. It knows
nodes and processes, and neither points nor scenarios.
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

#: Gone in milliseconds, but on a machine that has other work the server gets to it when it can.
_GONE_S = 30
_UP_S = 30
#: A process is its number and when it began: the number may be another one's by the time that it is looked for.
_OURS = """
select pid, pid || ' ' || extract(epoch from backend_start) from pg_stat_activity
where datname = current_database() and application_name like %s and right(application_name, length(%s)) = %s
"""
_OF_ROLE = """
select pid || ' ' || extract(epoch from backend_start) from pg_stat_activity where datname = current_database() and usename = %s
"""
_THERE = "select pid from pg_stat_activity where pid = %s"
_NAMED = """
select pid, pid || ' ' || extract(epoch from backend_start) from pg_stat_activity
where datname = current_database() and application_name = any (%s)
"""
#: A process that waits for a lock does not notice that its client has gone.
_STILL = """
select pid, application_name, state, wait_event, query from pg_stat_activity
where pid || ' ' || extract(epoch from backend_start) = any (%s) and wait_event_type is distinct from 'Lock'
"""
_FILLER = "by_hand_"


async def until(look: Callable[[], Seen], what: str, timeout_s: float = _GONE_S) -> Seen:
    """Wait until `look`, which may block, returns something true."""
    return await asyncio.to_thread(wait_for, look, what=what, timeout_s=timeout_s)


def fetch(node: Node, query: str, params: Any = None) -> list[tuple[Any, ...]]:
    """Rows, over a connection of its own: servers come and go."""
    with psycopg.connect(node.dsn, autocommit=True) as connection:
        cursor = connection.execute(query.encode(), params)
        return cursor.fetchall() if cursor.description else []


async def ask(node: Node, query: str, params: Any = None) -> list[tuple[Any, ...]]:
    """As `fetch`, beside the event loop."""
    return await asyncio.to_thread(fetch, node, query, params)


# -- processes at the servers ----------------------------------------------------------------------


async def processes_of(topology: Topology, *, down: Iterable[str] = ()) -> dict[str, list[str]]:
    """By node, the processes that serve the topology's coordinators, and the links of their sessions.

    There must be no coordinator but the one that is struck: processes do not say which of them they serve.
    """
    name = f" {topology.name}"
    results: dict[str, list[str]] = {}
    links: list[str] = []
    up = [node for node in topology.nodes if node not in down]
    for node in up:
        rows = await ask(topology.node(node), _OURS, (f"{PREFIX} %", name, name))
        results[node] = [process for _, process in rows]
        links += [link_name(node, pid) for pid, _ in rows]
    if topology.publisher in up:
        rows = await ask(topology.node(topology.publisher), _NAMED, (links,))
        results[topology.publisher] += [process for _, process in rows]
    return results


async def processes_of_agent(topology: Topology, subscriber: str) -> dict[str, list[str]]:
    """Those that serve a Subscriber's agent there."""
    node = topology.node(subscriber)
    rows = await ask(node, _OF_ROLE, (node.agent_role,))
    return {subscriber: [process for (process,) in rows]}


async def until_gone(topology: Topology, processes: Mapping[str, list[str]]) -> None:
    """Wait until those have ended whose client is gone; who waits for a lock is left.

    Raises TimeoutError with what is left.
    """
    for name, own in processes.items():
        node = topology.node(name)
        if own:
            try:
                await until(partial(_are_gone, node, own), f"sessions at {name} to end")
            except TimeoutError as error:
                error.add_note(f"there still are {await ask(node, _STILL, (own,))}")
                raise


def _are_gone(node: Node, processes: list[str]) -> bool:
    return not fetch(node, _STILL, (processes,))


async def backends(topology: Topology, node: str, pids: Mapping[str, int]) -> list[int]:
    """The processes at a node that work for a transaction which has these sessions, by Subscriber.

    At a Subscriber that session; at the Publisher their links, and those by which their coordinator finishes.
    """
    if node in pids:
        there = await ask(topology.node(node), _THERE, (pids[node],))
        return [pid for (pid,) in there]
    if node != topology.publisher:
        return []
    name = f"{PREFIX} finisher {topology.name}"
    names = [name, *(link_name(*place) for place in pids.items())]
    return [result for result, _ in await ask(topology.node(node), _NAMED, (names,))]


async def kill_backends(node: Node, pids: list[int]) -> None:
    """SIGKILL: the server takes all its sessions down, recovers and is up again on return."""
    for pid in pids:
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(pid, signal.SIGKILL)

    def is_up_again() -> bool:
        try:
            return not fetch(node, "select pid from pg_stat_activity where pid = any (%s)", (pids,))
        except psycopg.OperationalError:
            return False

    await until(is_up_again, f"the server of {node.name} to be up again", _UP_S)


async def terminate_backends(node: Node, pids: list[int]) -> None:
    """pg_terminate_backend, and wait until they are gone."""
    for pid in pids:
        await ask(node, "select pg_terminate_backend(%s, 5000)", (pid,))


async def cancel_backends(node: Node, pids: list[int]) -> None:
    """pg_cancel_backend; an idle one takes no notice."""
    for pid in pids:
        await ask(node, "select pg_cancel_backend(%s)", (pid,))


# -- servers ---------------------------------------------------------------------------------------


def on_server_of(topology: Topology, node: str) -> list[str]:
    """All nodes on a node's server."""
    server = topology.node(node).server
    return [name for name, each in topology.nodes.items() if each.server is server]


async def stop_server(node: Node, how: str) -> None:
    """Shut it down: in order (``fast``), or as it falls (``immediate``)."""
    assert isinstance(node.server, EmbeddedServer), "only a server of ours is stopped"
    await asyncio.to_thread(node.server.crash if how == "immediate" else node.server.shut_down)


async def start_server(node: Node) -> None:
    """Start it again; harmless if it runs."""
    assert isinstance(node.server, EmbeddedServer), "only a server of ours is started"
    if not node.server.is_running():
        await asyncio.to_thread(node.server.restart)


async def repeat(dsn: str, text: str) -> None:
    """Send a request once more, over a connection of its own; whatever is answered nobody hears."""
    statement = text.rstrip("\0")
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        with suppress(psycopg.Error):
            await connection.execute(statement.encode())


# -- by hand ---------------------------------------------------------------------------------------


async def forget_markers(topology: Topology, gid: str, *, down: Iterable[str] = ()) -> bool:
    """Delete what every node remembers of a transaction that it has committed; False if that is nothing."""
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
    """Finish a transaction's branch at a node as an operator does who knows no better; False if none is there."""
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
    """Prepare transactions of nobody's until the server has room for no more; False if it has none now."""
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
    """Take back what `fill_slots` has prepared."""

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
    """Empty the decision log of decisions, as a restore of an old copy does; epochs stay. False if it has none."""
    delete = sql.SQL("delete from {} where coordinator = %s returning epoch").format(
        sql.Identifier(SCHEMA, "decision")
    )
    node = topology.node(topology.distribution)
    return bool(await ask(node, delete.as_string(None), (topology.name,)))
