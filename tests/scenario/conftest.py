"""Fixtures that play scenarios, written in a test, on the worker's server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from twopc.sim.report.history import History, HistoryRecord
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import RunVerdict, run

#: The head of most scenarios here: a topology, and a table with two rows.
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
#: The same, with agents.
DELIVERING = HEAD.replace(" distribution: none,", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The outcome of a scenario."""

    verdict: RunVerdict
    records: list[HistoryRecord]

    def of(self, kind: str, step: str | None = None) -> list[HistoryRecord]:
        """Return the records of a kind, optionally of one step only."""
        return [r for r in self.records if r.kind == kind and step in (None, r.step)]

    @property
    def failures(self) -> list[str]:
        """The messages of all failures."""
        return [failure.message for order in self.verdict.orders for failure in order.failures]

    def ends(self) -> dict[str, str]:
        """Return the kind of each step's end."""
        from twopc.sim.report.history import ENDS

        return {r.step: r.kind for r in self.records if r.kind in ENDS and r.step}


@pytest.fixture
def whole_catalogue() -> list[Path]:
    """Return every shipped scenario that has the same outcome in each run."""
    every = sorted((Path(__file__).parents[2] / "scenarios").rglob("*.twopc.yaml"))
    return [path for path in every if path.parent.name != "stress"]  # the outcome of a load varies


Play = Callable[..., Awaitable[Played]]


@pytest.fixture
def play(server) -> Play:
    """Return a function that plays a scenario given as text, with `HEAD` as the default head."""

    async def play_text(
        text: str, *, head: str = HEAD, history: History | None = None, **options
    ) -> Played:
        history = history or History()
        async with PostgresTheatre(server=server) as theatre:
            verdict = await run(parse(head + text), theatre, history, **options)
        return Played(verdict=verdict, records=history.records)

    return play_text
