"""A coordinator in the test's process, with connections through proxies that a test can cut.

Its evidence has the same form as that of a coordinator process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

from psycopg import conninfo

from tests.fix_link import Wire
from tests.grid.cells import Kind, Result, Seen, recovered
from tests.grid.program import Answered, Begun, Note, Task, Traced, transact
from tests.grid.rig import Rig
from twopc.drivers import ParticipantAddress, PostgresCoordinator


class Here:
    """One global transaction of a coordinator in this process."""

    def __init__(self, rig: Rig, kind: Kind) -> None:
        self.rig = rig
        self.kind = kind
        self.seen = Seen.begin(rig, kind)
        self.coordinator: PostgresCoordinator
        self._trace: list[Traced] = []
        self._notes: list[Note] = []
        self._is_warm = False

    @asynccontextmanager
    async def open(
        self, wires: Mapping[str, Wire] | None = None, **options: Any
    ) -> AsyncIterator[PostgresCoordinator]:
        """Open the coordinator; it reaches the nodes of `wires` through their proxies.

        It recovers only when asked to, unless `options` differ.
        """
        task = self.task(wires or {})
        self.coordinator = PostgresCoordinator(
            task.coordinator,
            distribution=task.distribution,
            publisher=task.publisher,
            subscribers={task.subscriber.name: task.subscriber},
            observe=self._observe,
            **{"recovery_interval_s": 3600.0, "in_doubt_after_s": 0.3, **options},
        )
        async with self.coordinator:
            await self._warm_up()
            yield self.coordinator

    def task(self, wires: Mapping[str, Wire]) -> Task:
        """Return the task, with addresses that lead through proxies."""
        task = self.rig.task(
            self.seen.name,
            row=self.seen.row,
            ending=self.kind.ending,
            commit=self.kind.commit,
            shipping=self.kind.shipping,
        )
        return replace(
            task,
            distribution=_through(task.distribution, wires.get("distribution")),
            publisher=_address(task.publisher, wires),
            subscriber=_address(task.subscriber, wires),
        )

    async def _warm_up(self) -> None:
        """Open and initialise every connection."""
        row = self.rig.fresh_row()
        for _ in range(2):
            async with self.coordinator.transaction("sub1", commit=self.kind.commit) as transaction:
                await transaction.execute(f"update account set balance = 0 where id = {row}")
        self._is_warm = True

    async def transact(self) -> Answered:
        """Run the transaction, and return the application's answer."""
        answer = await transact(self.coordinator, self.task({}), self._notes.append)
        self.hear(answer)
        return answer

    def hear(self, answer: Answered | None) -> None:
        """Record the answer as evidence."""
        self.seen.gid = next(note.gid for note in self._notes if isinstance(note, Begun))
        self.seen.trace = tuple(self._trace)
        self.seen.answer = answer

    async def look(self) -> None:
        """Record the state of both sites."""
        await asyncio.to_thread(self.seen.look, self.rig)

    async def judge(self, what: str, row: str) -> Result:
        """Recover twice in a separate process, and check the invariants."""
        return await asyncio.to_thread(recovered, self.rig, self.seen, self.kind, what, row)

    def _observe(self, gid: str, what: Any) -> None:
        if self._is_warm:
            self._trace.append(Traced(gid, what))


@asynccontextmanager
async def wires_to(rig: Rig, *nodes: str) -> AsyncIterator[dict[str, Wire]]:
    """Open proxies to the servers of these nodes."""
    async with AsyncExitStack() as stack:
        wires = {}
        for node in nodes:
            wires[node] = Wire(rig.servers[node].port)
            await wires[node].open()
            stack.push_async_callback(wires[node].close)
        yield wires


def _address(address: ParticipantAddress, wires: Mapping[str, Wire]) -> ParticipantAddress:
    wire = wires.get(address.name)
    return replace(
        address,
        dsn=_through(address.dsn, wire),
        application_dsn=_through(address.application_dsn, wire),
    )


def _through(dsn: str, wire: Wire | None) -> str:
    if wire is None:
        return dsn
    return conninfo.make_conninfo(dsn, host="127.0.0.1", port=wire.port)
