"""Topologies with a scenario's tables: created once, and rewound before each further case.

Creating a topology takes ten times as long as rewinding it. If a case may have left anything that rewinding does
not restore, the next case gets a new topology.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import psycopg

from twopc.errors import TwopcError
from twopc.log import get_logger
from twopc.sim.faults.capabilities import IN_PROCESS
from twopc.sim.scenario import sqltext
from twopc.sim.scenario.model import Scenario, Step
from twopc.sim.scenario.steps import OF_SUBSCRIPTIONS
from twopc.sim.scenario.values import Case
from twopc.sim.sessions.waits import Observer
from twopc.sim.topology import Topology
from twopc.sim.topology.checkpoint import Checkpoint, checkpoint, rewind
from twopc.sim.topology.protections import switch_off

_log = get_logger(__name__)

#: Number of idle topologies that are kept: the cells of a matrix alternate.
KEPT_MAX = 4
#: Statements that have no effect after the end of their transaction.
_HARMLESS = frozenset({"savepoint", "release", "rollback"})


@dataclass(slots=True, eq=False)
class PreparedTopology:
    """A topology on which a scenario can be played."""

    scenario: Scenario
    off: frozenset[str]
    """Protections that are switched off in it."""
    topology: Topology
    observer: Observer
    printed: Sequence[Mapping[str, Any]]
    """Results of the scenario's `setup`."""
    end: AsyncExitStack
    """Removes the topology when it is closed."""
    start: Checkpoint | None = None
    """State before the first case; None if the topology cannot be rewound."""


Printed = Sequence[Mapping[str, Any]]
Make = Callable[[Case, AsyncExitStack], Awaitable[tuple[Topology, Observer, Printed]]]


class PreparedTopologies:
    """Pool of topologies for cases.

    Args:
        make: creates a topology with the scenario's tables for a case; the stack removes it.
        rewinds: whether topologies are reused; False: each case gets a new one.
    """

    def __init__(self, make: Make, *, rewinds: bool) -> None:
        self._make = make
        self._rewinds = rewinds
        self._idle: list[PreparedTopology] = []
        self._done: list[PreparedTopology] = []
        """Topologies that cannot be used by another case."""

    @asynccontextmanager
    async def prepared(self, case: Case) -> AsyncIterator[PreparedTopology]:
        """Yield a topology for exclusive use, in its initial state."""
        await self._make_room(case)
        one = await self._kept(case) or await self._made(case)
        try:
            yield one
        except BaseException:
            await one.end.aclose()
            raise
        if case.scenario.teardown:
            # removed now, so that an error of `teardown` is reported for this case
            await one.end.aclose()
        elif one.start is None or one.observer.is_disturbed or not leaves_no_trace(case):
            self._done.append(one)
        else:
            self._idle.append(one)

    async def close(self, *, leave: bool) -> None:
        """Remove all topologies. With `leave`, only disconnect, because their server is removed anyway."""
        async with AsyncExitStack() as stack:  # closes each of them even if another one fails
            for one in (*self._idle, *self._done):
                if leave:
                    one.topology.wiring.leave()
                stack.push_async_callback(one.end.aclose)
            self._idle, self._done = [], []

    async def _kept(self, case: Case) -> PreparedTopology | None:
        """Return an idle topology for the case, rewound; None if there is none."""
        while (one := self._fitting(case)) is not None:
            self._idle.remove(one)
            assert one.start is not None, "one that cannot be rewound is not kept"
            try:
                await rewind(one.topology, one.start)
                if one.off != case.off:
                    await switch_off(one.topology, case.off - IN_PROCESS)
                    one.off, one.start = case.off, None
                return one
            except (TwopcError, psycopg.Error) as error:
                _log.debug("made anew instead of rewound", case=case.name, error=str(error))
                await one.end.aclose()
            except BaseException:
                await one.end.aclose()
                raise
        return None

    def _fitting(self, case: Case) -> PreparedTopology | None:
        """Return an idle topology on which the case can be played, or one that can be changed for it.

        Protections cannot be switched on again, and twins come last: a topology without protections is of no use to
        other cases.
        """
        for off in (case.off, frozenset[str]()):
            for each in self._idle:
                if each.scenario is case.scenario and each.off == off:
                    return each
        return None

    async def _make_room(self, case: Case) -> None:
        """Remove topologies that are unusable or belong to other files, and the least recently used ones beyond the
        limit.
        """
        own = [each for each in self._idle if each.scenario.name == case.scenario.name]
        kept = own[-KEPT_MAX:]
        gone = [*self._done, *(each for each in self._idle if each not in kept)]
        self._idle, self._done = kept, []
        for each in gone:
            await each.end.aclose()

    async def _made(self, case: Case) -> PreparedTopology:
        async with AsyncExitStack() as stack:
            topology, observer, printed = await self._make(case, stack)
            start = None
            try:
                if self._rewinds and may_be_rewound(case.scenario):
                    start = await checkpoint(topology)
            except (TwopcError, psycopg.Error) as error:
                _log.debug("it cannot be rewound", case=case.name, error=str(error))
            return PreparedTopology(
                scenario=case.scenario,
                off=case.off,
                topology=topology,
                observer=observer,
                printed=printed,
                end=stack.pop_all(),
                start=start,
            )


def may_be_rewound(scenario: Scenario) -> bool:
    """Return whether a scenario has nothing that belongs to a single case or to the whole server."""
    sessions = scenario.sessions.values()
    return not (
        scenario.setup
        or any(each.joins == "later" for each in scenario.subscribers.values())
        or scenario.teardown
        or any(session.setup or session.teardown for session in sessions)
    )


def leaves_no_trace(case: Case) -> bool:
    """Return whether a case has no effects after the end of its transactions, other than on rows."""
    known = frozenset(case.scenario.tables)
    load = case.scenario.workload
    if load is not None:
        every = {**case.scenario.transactions, **load.transactions}.values()
        harmless = all(_is_harmless(step, known) for steps in every for step in steps)
        return harmless and not load.during
    return not case.faults and all(
        item.cut is None
        and item.restore is None
        and (item.step is None or _is_harmless(case.scenario.steps[item.step][1], known))
        for item in case.items
    )


def _is_harmless(step: Step, known: frozenset[str]) -> bool:
    if step.script is not None or step.call is not None or step.role is not None:
        return False
    if step.action in OF_SUBSCRIPTIONS:
        return False
    return all(
        sqltext.verbs(text) <= _HARMLESS or sqltext.tables(text, known) is not None
        for text in step.statements
    )
