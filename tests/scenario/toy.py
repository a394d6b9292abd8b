"""A toy stage: no server, one row per table, locks until a transaction ends, and virtual time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Sequence
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import ClassVar

from twopc.errors import from_sqlstate
from twopc.sim.scenario.stage import NodeContent, Stage
from twopc.sim.scenario.values import Capabilities, FaultStrike
from twopc.sim.sessions.results import Result
from twopc.sim.sessions.waits import Wait, Waits

TOOK_S = 60.0
"""Duration of each statement, in virtual time."""


class _NoWaiting(selectors.DefaultSelector):
    """Selects without waiting, since no event comes from outside."""

    def select(self, timeout=None):
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next scheduled call."""

    def __init__(self):
        super().__init__(_NoWaiting())
        self._now_s = 0.0

    def time(self):
        if not self._ready and self._scheduled:
            self._now_s = max(self._now_s, self._scheduled[0]._when)
        return self._now_s


def in_virtual_time(play):
    """Run a coroutine function on a loop whose clock is virtual."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(play())


class ToySession:
    """A session whose SQL is ``lock NAME``, or arbitrary."""

    gid = ""
    messages = ()
    printable = ()
    is_open = False

    def __init__(self, stage, name):
        self._stage = stage
        self._name = name
        self._cancelled = False

    def collect(self) -> None:
        """Do nothing, since no message arrives."""

    async def begin(self, level, role=""):
        self.is_open = True

    async def xid(self):
        return ""

    async def execute(self, sql, params):
        await _passed(TOOK_S)
        verb, _, what = sql.partition(" ")
        if verb == "lock":
            while (holder := self._stage.locks.setdefault(what, self._name)) != self._name:
                self._stage.waiting[self._name] = holder
                await self._stage.freed.wait()
                if self._cancelled:
                    self._stage.waiting.pop(self._name)
                    raise from_sqlstate("57014", "cancelled")
            self._stage.waiting.pop(self._name, None)
        return Result(rowcount=1, tag="UPDATE 1")

    async def script(self, text):
        return await self.execute(text, {})

    async def commit(self):
        await self._end()

    async def rollback(self):
        await self._end()

    async def _end(self):
        self.is_open = False
        for what, holder in [*self._stage.locks.items()]:
            if holder == self._name:
                del self._stage.locks[what]
        self._stage.wake()

    async def sync(self, subscribers: Sequence[str]):
        self._stage.happened.append(("sync", *subscribers))

    async def reinitialise(self):
        raise NotImplementedError

    async def cancel(self):
        self._cancelled = True
        self._stage.wake()

    async def close(self):
        await self._end()


class ToyStage(Stage):
    """A stage that records in `happened` what it was asked to do."""

    about: ClassVar = MappingProxyType({})

    def __init__(self):
        self.locks: dict[str, str] = {}
        self.waiting: dict[str, str] = {}
        self.freed = asyncio.Event()
        self.happened: list[tuple[object, ...]] = []
        self._armed: list[str] = []

    def wake(self):
        """Wake all waiting sessions, so that they look again."""
        self.freed.set()
        self.freed = asyncio.Event()

    async def open(self, session, node):
        return ToySession(self, session)

    def agents(self):
        return ToySession(self, "")

    def subscribes(self, node):
        return True

    async def waits(self):
        waits = {
            name: Wait(session=name, on=holder, node="pub") for name, holder in self.waiting.items()
        }
        return Waits(waits=waits)

    async def look(self, node, tables):
        return NodeContent(rows={name: [] for name in tables}, xids={name: [] for name in tables})

    async def part(self, subscriber, table, columns):
        return None

    async def query(self, node, text):
        return [{"n": "1"}]

    async def outage(self, node, *, on):
        self.happened.append(("outage", node, on))

    async def pause_agent(self, subscriber, *, on):
        self.happened.append(("pause", subscriber, on))

    async def arm(self, fault):
        self._armed.append(fault.id)

    async def fired(self):
        armed, self._armed = self._armed, []
        return [FaultStrike(fault=fault, point="somewhere") for fault in armed]

    async def recover(self):
        self.happened.append(("recover",))


class ToyTheatre:
    """Opens toy stages."""

    capabilities = Capabilities(
        name="toy",
        is_virtual=True,
        faults_at={"crash": frozenset({"coordinator.decision_logged"})},
    )
    kept = ()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    @asynccontextmanager
    async def stage(self, case):
        yield ToyStage()


async def _passed(seconds):
    """Let virtual time pass, by waiting for an event that is never set."""
    try:
        await asyncio.wait_for(asyncio.Event().wait(), seconds)
    except TimeoutError:
        return
