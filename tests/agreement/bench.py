"""A schedule played on real servers and on the model at the same time, item by item."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, Protocol, Self, TypeVar

from twopc.sim.model.loop import VirtualLoop
from twopc.sim.report.history import History, HistoryRecord
from twopc.sim.scenario.agree import Disagreement, compare
from twopc.sim.scenario.model import OrderItem, Scenario
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.player import Player
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.stage import AGENTS
from twopc.sim.scenario.values import Case

T = TypeVar("T")


class _Theatre(Protocol):
    def stage(self, case: Case) -> Any: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_: object) -> None: ...


class Side:
    """One of the two: its event loop, its theatre, and the schedule that is being played."""

    def __init__(self, theatre: _Theatre, runner: asyncio.Runner) -> None:
        self._theatre = theatre
        self._runner = runner
        self._stack: AsyncExitStack | None = None
        self._case: AsyncExitStack | None = None
        self._player: Player | None = None
        self._history = History()

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end; virtual time stands still afterwards."""
        return self._runner.run(work)

    async def begin(self, case: Case, sessions: tuple[str, ...]) -> None:
        """Begin a new schedule."""
        if self._stack is None:
            self._stack = AsyncExitStack()
            await self._stack.enter_async_context(self._theatre)
        self._case = AsyncExitStack()
        stage = await self._case.enter_async_context(self._theatre.stage(case))
        self._history = History()
        self._player = Player(case, stage, self._history.of(case.name))
        self._case.push_async_callback(self._player.close)
        await self._player.begin()

    async def item(self, item: OrderItem) -> None:
        """Play one item, until every session has ended or waits."""
        assert self._player is not None
        await self._player.item(item)

    async def end(self) -> list[HistoryRecord]:
        """End the schedule, and return its history."""
        assert self._player is not None
        assert self._case is not None
        try:
            await self._player.finish()
        finally:
            await self._case.aclose()
            self._case = None
        return self._history.records

    async def leave(self) -> None:
        """Give up an open schedule."""
        if self._case is not None:
            await self._case.aclose()
            self._case = None

    @property
    def standing(self) -> dict[str, str]:
        """The state of each session, and the session for which it waits; agents count as one session."""
        assert self._player is not None
        found = dict(self._player.standing())
        return {**found, AGENTS: "wait"} if self._agents_wait() else found

    def _agents_wait(self) -> bool:
        """Return whether an agent still runs after an item, which means that it is blocked."""
        assert self._player is not None
        return self._player._lanes[AGENTS].running is not None

    def close(self) -> None:
        """Stop the theatre."""
        if self._stack is not None:
            self.do(self._stack.aclose())
        self._runner.close()


def races(standing: dict[str, str]) -> bool:
    """Return whether two sessions wait: once released, they race on servers, with a random result."""
    return sum("wait" in doing for doing in standing.values()) > 1


class Both:
    """Real servers and the model."""

    def __init__(self) -> None:
        self.postgres = Side(PostgresTheatre(), asyncio.Runner())
        self.model = Side(ModelTheatre(), asyncio.Runner(loop_factory=VirtualLoop))

    def begin(self, scenario: Scenario, items: tuple[OrderItem, ...]) -> None:
        """Begin a new schedule; `items` name the sessions that take part."""
        case = Case(
            name="drawn", group="drawn", scenario=scenario, order=scenario.orders[0],
            at=("orders", 0), items=items,
        )  # fmt: skip
        for side in (self.postgres, self.model):
            side.do(side.begin(case, ()))

    def item(self, item: OrderItem) -> tuple[dict[str, str], dict[str, str]]:
        """Play one item on both; return the state of the sessions on each."""
        for side in (self.postgres, self.model):
            side.do(side.item(item))
        return self.postgres.standing, self.model.standing

    def end(self) -> list[Disagreement]:
        """End the schedule, and return the differences."""
        return compare(*(side.do(side.end()) for side in (self.postgres, self.model)))

    def leave(self) -> None:
        """Give up the schedule after a failure."""
        for side in (self.postgres, self.model):
            side.do(side.leave())

    def close(self) -> None:
        """Stop both theatres."""
        for side in (self.postgres, self.model):
            side.close()
