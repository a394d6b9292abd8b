"""A node in virtual time, and sessions that execute statements on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from twopc.protocol import Participant
from twopc.protocol.variants import PRESUMED_ABORT, Settings
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.values import ModelTiming, RequestLostError, SqlError, StatementResult, Steps

SETTINGS = Settings(variant=PRESUMED_ABORT.on_postgres(), inquiry_s=float("inf"))


def make_node(kernel: SimpyKernel, setup: str = "", **options: Any) -> ModelNode:
    """Return a node without tables, on which the setup has been executed."""
    given: dict[str, Any] = {
        "timing": ModelTiming(),
        "clock": lambda: 1.7e9 + kernel.now,
        "lock_timeout_s": 0.0,
        "prepared_max": 8,
        "participant": Participant,
        "settings": SETTINGS,
        **options,
    }
    node = ModelNode(given.pop("name", "pub"), kernel, **given)
    if setup:
        node.define(setup)
    return node


@dataclass
class Player:
    """One session, which executes one statement after another."""

    kernel: SimpyKernel
    session: NodeSession
    results: list[StatementResult | SqlError | RequestLostError] = field(default_factory=list)

    def play(self, *texts: str, params: dict[str, Any] | None = None) -> None:
        """Start executing statements in virtual time; an error does not stop it."""
        self.kernel.spawn(self._steps(texts, params), self.session.application_name)

    def _steps(self, texts: Sequence[str], params: dict[str, Any] | None) -> Steps[None]:
        for text in texts:
            try:
                self.results.append((yield from self.session.execute(text, params)))
            except (SqlError, RequestLostError) as error:
                self.results.append(error)

    @property
    def told(self) -> list[str]:
        """Command tags and SQLSTATEs of the statements."""
        return [
            one.tag if isinstance(one, StatementResult) else getattr(one, "sqlstate", "lost")
            for one in self.results
        ]

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows of the last statement."""
        last = self.results[-1]
        assert isinstance(last, StatementResult), last
        return list(last.rows or ())


@dataclass
class World:
    """A kernel and one node."""

    kernel: SimpyKernel
    node: ModelNode

    def player(self, name: str, role: str = "app") -> Player:
        """Open a new session."""
        return Player(self.kernel, self.node.connect(role, name))

    def run(self, seconds: float | None = None) -> None:
        """Run until nothing is left to do, or for a duration."""
        self.kernel.env.run(until=None if seconds is None else self.kernel.now + seconds)

    def do(self, *texts: str) -> list[str]:
        """Execute statements in a new session, close it, and return their tags and SQLSTATEs."""
        player = self.player("alone", "postgres")
        player.play(*texts)
        self.run()
        player.session.close()
        return player.told

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        player = self.player("asks", "postgres")
        player.play(text)
        self.run()
        player.session.close()
        return player.rows


def world(setup: str = "", **options: Any) -> World:
    """Return a node whose virtual time begins at 0."""
    kernel = SimpyKernel()
    return World(kernel, make_node(kernel, setup, **options))


MakeWorld = Callable[..., World]
