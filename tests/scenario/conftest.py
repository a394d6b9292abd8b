"""Plays scenarios written in a test on the worker's server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from twopc.sim.report.history import History, HistoryRecord
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import RunVerdict, run

#: What most scenarios here begin with: a Publisher, and two rows to quarrel about.
HEAD = """\
twopc: 1
name: test
about: Written in a test.
topology: {publisher: pub, subscribers: [sub1, sub2], distribution: none, timeouts: {step: 8s}}
tables:
  t:
    columns: {id: int primary key, n: int}
    rows: [{id: 1, n: 10}, {id: 2, n: 20}]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What came of a scenario."""

    verdict: RunVerdict
    records: list[HistoryRecord]

    def of(self, kind: str, step: str | None = None) -> list[HistoryRecord]:
        """The records of a kind, perhaps of one step only."""
        return [r for r in self.records if r.kind == kind and step in (None, r.step)]

    @property
    def failures(self) -> list[str]:
        """What is wrong, in words."""
        return [failure.message for order in self.verdict.orders for failure in order.failures]

    def ends(self) -> dict[str, str]:
        """How each step ended."""
        from twopc.sim.report.history import ENDS

        return {r.step: r.kind for r in self.records if r.kind in ENDS and r.step}


@pytest.fixture
def whole_catalogue() -> list[Path]:
    """Every shipped scenario that goes one way only."""
    every = sorted((Path(__file__).parents[2] / "scenarios").rglob("*.twopc.yaml"))
    return [path for path in every if path.parent.name != "stress"]  # loads go no way twice


Play = Callable[..., Awaitable[Played]]


@pytest.fixture
def play(server) -> Play:
    """Play a scenario given as text; without a head it gets `HEAD`."""

    async def play_text(
        text: str, *, head: str = HEAD, history: History | None = None, **options
    ) -> Played:
        history = history or History()
        async with PostgresTheatre(server=server) as theatre:
            verdict = await run(parse(head + text), theatre, history, **options)
        return Played(verdict=verdict, records=history.records)

    return play_text
