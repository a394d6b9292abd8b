"""Log writes and messages, counted in the trace of a run, equal the figures in the literature.

Presumed abort and presumed commit, and read-only participants: C. Mohan and B. Lindsay's R* (Mohan,
Lindsay, Obermarck 1986, the table of log writes and messages of its section on the two protocols).
What plain two-phase commit must presume: B. Lampson and D. Lomet 1993. Last agent, and the counting
of forced writes as such: G. Samaras and others 1995. Their counts are for N updating participants
below one coordinator on a separate node; the application's request and answer are not counted. The
last line of each table is PostgreSQL's, whose WAL flushes were measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

import pytest

from tests.protocol.step import step
from tests.protocol.values import Config, Faults
from tests.protocol.world import World
from twopc.protocol import effects as x
from twopc.protocol.effects import COORDINATOR, Effect, Outcome
from twopc.protocol.variants import (
    LAST_AGENT,
    PRESUMED_ABORT,
    PRESUMED_COMMIT,
    PRESUMED_NOTHING,
    Settings,
    Variant,
)

NAMES = ("a", "b", "c", "d", "e")
COUNTS = (1, 2, 3, 5)


class Cost(NamedTuple):
    """Writes and forced writes at the coordinator and at each participant, and messages."""

    coordinator: tuple[int, int]
    participants: tuple[tuple[int, int], ...]
    messages: int

    @property
    def forced(self) -> int:
        """Number of forced writes at all nodes."""
        return self.coordinator[1] + sum(forced for _, forced in self.participants)


def cost_of(
    variant: Variant, count: int, writers: str = "abcde", *, refuse: str = ""
) -> tuple[Cost, Outcome | None]:
    """Run one transaction without early timers, and count its writes and messages.

    Args:
        variant: the protocol's variant.
        count: number of participants.
        writers: the participants that change rows.
        refuse: node whose commit record cannot be written; "coordinator", or the last agent's name.
    """
    trace: list[tuple[str, Effect]] = []
    config = Config(
        settings=Settings(variant=variant),
        participants=NAMES[:count],
        writers=frozenset(writers),
        faults=Faults(log_faults=1),
    )
    world = World(config, observe=lambda node, effect: trace.append((node, effect)))
    where = COORDINATOR if refuse == "coordinator" else refuse
    state = step(world, world.start(), ("ask",))
    writes: Counter[str] = Counter()
    while due := sorted(world.expected(state)):
        action = due[0]
        commits = (x.RecordKind.COMMIT, x.RecordKind.COMMITTED)
        disk = state.disks[world.nodes.index(where)]
        if refuse and disk.pending and disk.records[-1].kind in commits:
            action = ("log_failed", where)
            writes[where] -= 1  # a definite failure wrote nothing
        state = step(world, state, action)
    world.check_settled(state)

    forced: Counter[str] = Counter(writes)
    messages = 0
    for node, effect in trace:
        if isinstance(effect, x.Log):
            writes[node] += 1
            forced[node] += effect.forced
        messages += isinstance(effect, x.Send)
    found = [(writes[node], forced[node]) for node in world.nodes]
    return Cost(found[0], tuple(found[1:]), messages), state.answer


class Line(NamedTuple):
    """A line of the table, for n participants that write."""

    variant: Variant
    coordinator: tuple[int, int]
    participant: tuple[int, int]
    forced: Callable[[int], int]
    messages: Callable[[int], int]

    def check(self, cost: Cost, n: int) -> None:
        """Assert that the run cost what the table says."""
        assert cost == Cost(self.coordinator, (self.participant,) * n, self.messages(n))
        assert cost.forced == self.forced(n)


COMMIT = (
    Line(PRESUMED_NOTHING, (2, 1), (2, 2), lambda n: 2 * n + 1, lambda n: 4 * n),
    Line(PRESUMED_ABORT, (2, 1), (2, 2), lambda n: 2 * n + 1, lambda n: 4 * n),
    Line(PRESUMED_COMMIT, (2, 2), (2, 1), lambda n: n + 2, lambda n: 3 * n),
    Line(PRESUMED_ABORT.on_postgres(), (2, 1), (2, 2), lambda n: 2 * n + 1, lambda n: 4 * n),
)
ABORT = (
    Line(PRESUMED_NOTHING, (2, 1), (2, 2), lambda n: 2 * n + 1, lambda n: 4 * n),
    Line(PRESUMED_ABORT, (0, 0), (2, 1), lambda n: n, lambda n: 3 * n),
    Line(PRESUMED_COMMIT, (3, 1), (2, 2), lambda n: 2 * n + 1, lambda n: 4 * n),
    # ROLLBACK PREPARED flushes the WAL and returns a result; the theory requires neither.
    Line(PRESUMED_ABORT.on_postgres(), (0, 0), (2, 2), lambda n: 2 * n, lambda n: 4 * n),
)


def name_of(value: object) -> str:
    """Return a parameter's name in a test's id."""
    if isinstance(value, Line):
        return value.variant.name + ("_on_postgres" if value.variant.answers_always else "")
    return str(value)


@pytest.mark.parametrize("n", COUNTS)
@pytest.mark.parametrize("line", COMMIT, ids=name_of)
def test_commit(n: int, line: Line) -> None:
    """The cost of a commit if all participants write."""
    cost, answer = cost_of(line.variant, n)

    assert answer is Outcome.COMMITTED
    line.check(cost, n)


@pytest.mark.parametrize("n", COUNTS)
@pytest.mark.parametrize("line", ABORT, ids=name_of)
def test_abort_after_all_prepared(n: int, line: Line) -> None:
    """The cost of an abort after yes votes only: the commit decision cannot be written."""
    cost, answer = cost_of(line.variant, n, refuse="coordinator")

    assert answer is Outcome.ABORTED
    line.check(cost, n)


@pytest.mark.parametrize("n", COUNTS)
def test_last_agent_commit(n: int) -> None:
    """With a last agent, the coordinator writes nothing, and a single participant one record."""
    cost, answer = cost_of(LAST_AGENT, n)

    assert answer is Outcome.COMMITTED
    assert cost == ((0, 0), ((2, 2),) * (n - 1) + ((1, 1),), 4 * (n - 1) + 2)
    assert cost.forced == 2 * (n - 1) + 1


@pytest.mark.parametrize("n", COUNTS)
def test_last_agent_abort(n: int) -> None:
    """If the last agent cannot commit, abort is presumed, so no participant acknowledges."""
    cost, answer = cost_of(LAST_AGENT, n, refuse=NAMES[n - 1])

    assert answer is Outcome.ABORTED
    assert cost == ((0, 0), ((2, 1),) * (n - 1) + ((0, 0),), 3 * (n - 1) + 2)


@pytest.mark.parametrize("n", COUNTS)
@pytest.mark.parametrize(
    ("variant", "coordinator"),
    [(PRESUMED_ABORT, (0, 0)), (PRESUMED_COMMIT, (2, 1)), (LAST_AGENT, (0, 0))],
)
def test_all_read_only(n: int, variant: Variant, coordinator: tuple[int, int]) -> None:
    """A read-only participant costs two messages; presumed commit also pays for names."""
    cost, answer = cost_of(variant, n, writers="")

    assert answer is Outcome.COMMITTED
    assert cost == (coordinator, ((0, 0),) * n, 2 * n)


@pytest.mark.parametrize("n", COUNTS)
def test_all_read_only_presumed_nothing(n: int) -> None:
    """Without read-only votes, a read-only transaction costs as much as any commit."""
    assert cost_of(PRESUMED_NOTHING, n, writers="") == cost_of(PRESUMED_NOTHING, n)


@pytest.mark.parametrize("n", COUNTS[1:])
def test_one_read_only(n: int) -> None:
    """A read-only participant saves its two forced writes and two of its four messages."""
    all_write, _ = cost_of(PRESUMED_ABORT, n)
    one_reads, answer = cost_of(PRESUMED_ABORT, n, writers="bcde")

    assert answer is Outcome.COMMITTED
    assert one_reads.participants[0] == (0, 0)
    assert all_write.forced - one_reads.forced == 2
    assert all_write.messages - one_reads.messages == 2


def test_two_branches_on_postgres() -> None:
    """The figures measured on servers: five flushes with presumed abort, three with last agent."""
    assert cost_of(PRESUMED_ABORT.on_postgres(), 2)[0].forced == 5
    assert cost_of(LAST_AGENT.on_postgres(), 2)[0].forced == 3
    assert cost_of(PRESUMED_ABORT.on_postgres(), 2, writers="")[0].forced == 0
