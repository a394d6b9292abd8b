"""Plays random histories on servers, in sessions of the application at a topology's Publisher."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import psycopg

from tests.proc_execution.histories.drawn import (
    DEFINITIONS,
    ROUTINES,
    ROWS,
    TABLES,
    Play,
    Seen,
    rounds,
)
from twopc.errors import DeliveryError
from twopc.server import choose
from twopc.sim import Topology
from twopc.sim.topology.protections import switch_off

LOCK_TIMEOUT_MS = 20


async def prepared(topology: Topology, off: frozenset[str] = frozenset()) -> None:
    """Create and publish the tables and routines, and subscribe a read-only Subscriber."""
    for text in DEFINITIONS:
        await topology.execute("pub", text)
    for name, rows in ROWS.items():
        for row in rows:
            await topology.execute("pub", f"insert into {name} values (%s, %s)", row)
    for body, _, _ in ROUTINES.values():
        await topology.execute("pub", body)
    for name in TABLES:
        await topology.publish(name)
    for name, (_, reads, writes) in ROUTINES.items():
        await topology.publish_procedure(name, reads=reads, writes=writes)
    await topology.subscribe("sub1", update_mode="read only")
    await switch_off(topology, off)


class _Sessions:
    def __init__(self, dsn: str, stack: ExitStack) -> None:
        self._dsn = dsn
        self._stack = stack
        self._known: dict[int, psycopg.Connection[Any]] = {}
        self.called = 0

    def execute(self, at: int, text: str) -> str:
        """Execute a statement; return the SQLSTATE of its error, or an empty string."""
        connection = self._known.get(at)
        if connection is None:
            connection = psycopg.connect(self._dsn, autocommit=True)
            self._known[at] = self._stack.enter_context(connection)
            connection.execute(f"set lock_timeout = {LOCK_TIMEOUT_MS}")
        try:
            connection.execute(text.encode())
        except psycopg.Error as error:
            assert error.sqlstate is not None, error
            return error.sqlstate
        self.called += text.startswith("call")
        return ""


async def contents(topology: Topology, node: str) -> dict[str, list[Any]]:
    """Return the rows of both tables, without versions."""
    return {
        name: await topology.execute(node, f"select id, v from {name} order by id")
        for name in TABLES
    }


async def played(topology: Topology, first: int, count: int) -> Seen:
    """Play `count` histories from a number on, up to the first difference."""
    seen = Seen()
    with ExitStack() as stack:
        sessions = _Sessions(topology.node("pub").app_dsn, stack)
        for numbers in rounds(first, count):
            play = Play(sessions.execute)
            for number in numbers:
                play.play(number)
            try:
                await topology.sync()
            except DeliveryError as error:
                seen.different = f"histories {numbers[0]} to {numbers[-1]}: {error}"
                break
            seen.histories += len(numbers)
            seen.called = sessions.called
            seen.calls += sum(each.calls for each in await topology.inspect.take_deliveries())
            there, here = await contents(topology, "pub"), await contents(topology, "sub1")
            if there != here:
                seen.different = (
                    f"histories {numbers[0]} to {numbers[-1]}: pub holds {there}, sub1 {here}"
                )
                break
    return seen


async def played_alone(first: int, count: int, off: frozenset[str]) -> Seen:
    """Play histories on a separate server."""
    with choose("") as server:
        async with Topology(publisher="pub", subscribers=("sub1",), server=server) as topology:
            await prepared(topology, off)
            return await played(topology, first, count)
