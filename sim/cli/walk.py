"""A walk through one order by hand: forward, back, or with other steps than the file's.

To go back, the order is played again up to the earlier item, on a fresh stage. This module prints nothing.
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

#: Timeout of locks and steps: they are held while the user thinks.
_PATIENCE_MS = 24 * 3600 * 1000


class Walk:
    """One case, and the position of the user in it. End the walk by `close`."""

    def __init__(self, loaded: LoadedScenario, case: Case, theatre: Theatre) -> None:
        self._loaded = loaded
        self.case = _patient(case)
        """The case, with practically unlimited timeouts."""
        self._theatre = theatre
        self._stack = AsyncExitStack()
        self._player: Player | None = None
        self.items: list[OrderItem] = list(case.items)
        """The items to be played: those of the file, or as changed by `fork`."""
        self.at = 0
        """Number of items played so far."""
        self.forked = False
        """Whether the order differs from the file's."""
        self.over = False
        """Whether all items have been played, and all changes delivered."""
        self._run = History()
        self._history: OrderHistory | None = None

    @property
    def records(self) -> Sequence[HistoryRecord]:
        """All records since the beginning, the run's header first."""
        return self._run.records

    @property
    def order(self) -> Sequence[HistoryRecord]:
        """Records of the order."""
        assert self._history is not None
        return self._history.records

    @property
    def stuck(self) -> str:
        """Why no session can continue; empty if one can."""
        kinds = ("stuck", "timed_out")
        return next((each.message for each in self.order if each.kind in kinds), "")

    @property
    def following(self) -> OrderItem | None:
        """The next item; None if all items have been played, or no session can continue."""
        return None if self.at == len(self.items) or self.stuck else self.items[self.at]

    @property
    def end(self) -> str:
        """The final action if no item is left to be played; empty if one is left, or the walk is over."""
        if self.over or self.following is not None:
            return ""
        return "end everything" if self.stuck else "deliver everything"

    @property
    def ready(self) -> tuple[str, ...]:
        """The steps that are possible now, whatever the file's order."""
        assert self._player is not None
        return () if self.over else self._player.ready()

    @property
    def standing(self) -> Mapping[str, str]:
        """The state of each session."""
        assert self._player is not None
        return self._player.standing()

    async def begin(self) -> None:
        """Set up a stage and connect all sessions."""
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
        """Play the next item; after the last one, finish all transactions and deliveries.

        Return why the item could not be played; empty if it was played.
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

    async def back(self) -> None:
        """Go back by one item: all items before it are played again."""
        target = self.at if self.over else max(0, self.at - 1)
        await self.close()
        await self.begin()
        while self.at < target and not await self.next():
            pass

    def fork(self, step: str) -> tuple[str, ...]:
        """Make `step` the next one, after the steps of its session that must precede it.

        The remaining items of the order follow. Return the steps that come next; empty if `step` is not possible.
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
        """Roll back open transactions, and leave the stage."""
        await self._stack.aclose()
        self._stack = AsyncExitStack()


def _patient(case: Case) -> Case:
    """Return the case with practically unlimited lock timeouts, so that waits are no failures."""
    topology = case.scenario.topology
    timeouts = topology.timeouts.model_copy(update={"lock_ms": _PATIENCE_MS})
    scenario = case.scenario.model_copy(
        update={"topology": topology.model_copy(update={"timeouts": timeouts})}
    )
    return dataclasses.replace(case, scenario=scenario)
