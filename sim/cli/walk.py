"""Going through one order by hand: forward, back, and another way than the file's.

Going back is playing it again up to there, on a stage that is as new. Shows nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from twopc.sim.report.history import History, HistoryRecord, OrderHistory
from twopc.sim.scenario.model import OrderItem
from twopc.sim.scenario.player import InfeasibleError, Player
from twopc.sim.scenario.run import begin, header
from twopc.sim.scenario.values import Selection

if TYPE_CHECKING:
    from twopc.sim.scenario.check import LoadedScenario
    from twopc.sim.scenario.stage import Theatre
    from twopc.sim.scenario.values import Case

#: Nobody is hurried: while somebody thinks, locks are held and steps wait.
_PATIENCE_MS = 24 * 3600 * 1000


class Walk:
    """One case, and how far somebody has gone through it. Leave it by `close`."""

    def __init__(self, loaded: LoadedScenario, case: Case, theatre: Theatre) -> None:
        self._loaded = loaded
        self.case = _patient(case)
        """What is played, with all the time that somebody may take."""
        self._theatre = theatre
        self._stack = AsyncExitStack()
        self._player: Player | None = None
        self.items: list[OrderItem] = list(case.items)
        """What is played: as the file has it, or as somebody has turned it."""
        self.at = 0
        """So many of them have been."""
        self.forked = False
        """It is no longer the file's order."""
        self.over = False
        """Everything has been played, and delivered."""
        self._run = History()
        self._history: OrderHistory | None = None

    @property
    def name(self) -> str:
        """The order's name."""
        return self.case.name

    @property
    def records(self) -> Sequence[HistoryRecord]:
        """Everything since the beginning, the run's header first."""
        return self._run.records

    @property
    def order(self) -> Sequence[HistoryRecord]:
        """The order's own."""
        assert self._history is not None
        return self._history.records

    @property
    def stuck(self) -> str:
        """Why nothing can go on; empty while something can."""
        kinds = ("stuck", "timed_out")
        return next((each.message for each in self.order if each.kind in kinds), "")

    @property
    def following(self) -> OrderItem | None:
        """What comes next; None once all has been played, or nothing can go on."""
        return None if self.at == len(self.items) or self.stuck else self.items[self.at]

    @property
    def end(self) -> str:
        """What comes next if nothing is left to be played; empty if something is, or it is over."""
        if self.over or self.following is not None:
            return ""
        return "end everything" if self.stuck else "deliver everything"

    @property
    def ready(self) -> tuple[str, ...]:
        """The steps that could come next, whatever the file says."""
        assert self._player is not None
        return () if self.over else self._player.ready()

    @property
    def standing(self) -> Mapping[str, str]:
        """What each session is doing."""
        assert self._player is not None
        return self._player.standing()

    async def begin(self) -> None:
        """Take a stage and connect everybody."""
        case = dataclasses.replace(self.case, items=tuple(self.items))
        stage = await self._stack.enter_async_context(self._theatre.stage(case))
        self._run = History()
        self._run.write("header", data=header(self._loaded, self._theatre, Selection()))
        self._history = self._run.of(case.name)
        begin(self._history, self._loaded, case)
        self._player = Player(case, stage, self._history, step_timeout_ms=_PATIENCE_MS)
        self._stack.push_async_callback(self._player.close)
        await self._player.begin()
        self.at, self.over = 0, False

    async def next(self) -> str:
        """Play the next item, or after the last one let everything come to its end.

        Returns why it could not be played; empty if it was.
        """
        assert self._player is not None
        item = self.following
        if item is None:
            if not self.over:
                await self._player.finish()
                self.over = True
            return ""
        try:
            await self._player.item(item)
        except InfeasibleError:
            return self.order[-1].message
        self.at += 1
        await self._player.look()
        return ""

    async def back(self, count: int = 1) -> None:
        """Go back so many items: everything up to there is played again."""
        target = max(0, self.at - count) if not self.over else self.at
        await self.close()
        await self.begin()
        while self.at < target and not await self.next():
            pass

    def fork(self, step: str) -> tuple[str, ...]:
        """Let `step` come next, after those of its session that must come before it.

        What the order has left comes after them. Returns the steps that come next; none if it cannot be.
        """
        assert self._player is not None
        first = self._player.way_to(step)
        rest = [item for item in self.items[self.at :] if item.step not in first]
        following = [item.step for item in self.items[self.at : self.at + len(first)]]
        if first and following != [*first]:
            self.forked = True
        new = [OrderItem(step=name) for name in first]
        self.items = [*self.items[: self.at], *new, *rest] if first else self.items
        return first

    async def close(self) -> None:
        """Roll back what is open, and leave the stage."""
        await self._stack.aclose()
        self._stack = AsyncExitStack()


def _patient(case: Case) -> Case:
    """The case, with no limit to how long somebody may look at a lock; its waits are no mistakes."""
    topology = case.scenario.topology
    timeouts = topology.timeouts.model_copy(update={"lock_ms": _PATIENCE_MS})
    scenario = case.scenario.model_copy(
        update={"topology": topology.model_copy(update={"timeouts": timeouts})}
    )
    return dataclasses.replace(case, scenario=scenario)
