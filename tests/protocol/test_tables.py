"""Tests of the transition tables: every row is reached, and any other event changes nothing."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import fields, replace

import pytest

from tests.protocol.breadth import explore
from tests.protocol.frozen import Registry, Way, clone, fingerprint, place, visited
from tests.protocol.values import Config, Faults, State
from tests.protocol.walk import successors
from tests.protocol.world import World
from twopc.errors import LocalProtocolError, RemoteProtocolError
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.coordinator import Coordinator
from twopc.protocol.effects import Outcome, Record, RecordKind, Timer
from twopc.protocol.machine import Machine
from twopc.protocol.participant import Participant
from twopc.protocol.states import CoordinatorState, ParticipantState
from twopc.protocol.variants import (
    LAST_AGENT,
    PRESUMED_ABORT,
    PRESUMED_COMMIT,
    PRESUMED_NOTHING,
    Settings,
    Variant,
)

MACHINES = (Coordinator, Participant)

#: The smallest worlds in which every row is reached: variant, writers, faults.
SWEEP: tuple[tuple[Variant, str, Faults], ...] = (
    (PRESUMED_ABORT, "ab", Faults(duplicates=1, hasty=1, work_failures=1)),
    (PRESUMED_ABORT, "ab", Faults(crashes=1, hasty=1)),
    (PRESUMED_ABORT, "a", Faults(crashes=1, duplicates=1, log_faults=1)),
    (PRESUMED_ABORT, "a", Faults(losses=1, log_faults=1, hasty=1)),
    (PRESUMED_ABORT, "a", Faults(give_ups=1, log_faults=1, stale=1)),
    (PRESUMED_ABORT, "a", Faults(unknown=2, log_faults=1)),
    (PRESUMED_ABORT.on_postgres(), "a", Faults(duplicates=1, unknown=1, log_faults=1)),
    (PRESUMED_ABORT.on_postgres(), "ab", Faults(by_hand=1, hasty=1)),
    (PRESUMED_ABORT.on_postgres(), "ab", Faults(by_hand=1, unknown=1)),
    (PRESUMED_COMMIT, "ab", Faults(work_failures=1, unknown=1, log_faults=1)),
    (PRESUMED_COMMIT, "a", Faults(give_ups=1, log_faults=1)),
    (PRESUMED_NOTHING, "ab", Faults(duplicates=1, unknown=1, log_faults=1)),
    (PRESUMED_NOTHING, "ab", Faults(log_faults=1, hasty=1)),
    (PRESUMED_NOTHING, "ab", Faults(give_ups=1, log_faults=2, stale=1)),
    (replace(PRESUMED_NOTHING, read_only_votes=True), "a", Faults(duplicates=1, unknown=2)),
    (LAST_AGENT, "ab", Faults(crashes=1, duplicates=1, unknown=1)),
    (LAST_AGENT, "b", Faults(crashes=1, duplicates=1, unknown=1)),
    (LAST_AGENT, "ab", Faults(losses=1, log_faults=1, unknown=1, stale=1, hasty=1)),
    (LAST_AGENT, "ab", Faults(give_ups=1, work_failures=1, stale=1)),
    (LAST_AGENT, "ab", Faults(give_ups=1, unknown=1)),
    (LAST_AGENT.on_postgres(), "a", Faults(unknown=1, log_faults=1, work_failures=1)),
)


def ways() -> set[Way]:
    """Return every row of both tables with each of its next states."""
    return {
        (place(state), event, after)
        for machine in MACHINES
        for (state, event), row in machine.table.items()
        for after in row.next
    }


def test_every_row_is_reached() -> None:
    """Every row is reached, with each of its next states."""
    visited.clear()
    for variant, writers, faults in SWEEP:
        for names in (("a",), ("a", "b")):
            config = Config(
                settings=Settings(variant=variant),
                participants=names,
                writers=frozenset(writers),
                faults=faults,
            )
            world = World(config)

            def after(state: State, world: World = world) -> Iterator[tuple[State, bool]]:
                return successors(world, state)

            explore([world.start()], after)

    missing = sorted((state, event.__name__, after) for state, event, after in ways() - visited)
    assert missing == []


@pytest.mark.parametrize("machine", MACHINES)
def test_rows_name_methods(machine: type[Machine]) -> None:
    """Each action is a method, and each handler is the action of a row."""
    actions = {f"_{row.action}" for row in machine.table.values()}
    handlers = {
        name
        for name, method in inspect.getmembers(machine, inspect.isfunction)
        if list(inspect.signature(method).parameters) == ["self", "event", "now"]
    }

    assert handlers - {"receive"} == actions


@pytest.mark.parametrize("machine", MACHINES)
def test_states_are_reachable(machine: type[Machine]) -> None:
    """Every state but the first is the next state of a row, and every state has a row."""
    states = {state for state, _ in machine.table}

    assert {after for row in machine.table.values() for after in row.next} == {
        state for state in states if state.name != "NEW"
    }
    assert states == set(type(next(iter(states))))


RECORD = Record(kind=RecordKind.COMMIT, participants=("a", "b"))


def every_event() -> list[e.Event]:
    """Return one event of each type."""
    filled: dict[str, object] = {
        "participants": ("a", "b"),
        "participant": "a",
        "record": RECORD,
        "name": Timer.VOTE,
        "outcome": Outcome.ABORTED,
        "reason": "because",
    }
    kinds = [
        kind
        for _, kind in inspect.getmembers(e, inspect.isclass)
        if issubclass(kind, e.Event) and kind is not e.Event
    ]
    return [kind(**{field.name: filled[field.name] for field in fields(kind)}) for kind in kinds]


def coordinators() -> Iterator[Coordinator]:
    """Yield a coordinator in each state, by the shortest way."""
    yes = [e.VotedYes(participant=name) for name in ("a", "b")]
    begun: list[e.Event] = [e.Begin(participants=("a", "b"))]
    asked = [*begun, e.CommitAsked()]
    no = [*asked, yes[0], e.VotedNo(participant="b", reason="no")]
    ways: list[tuple[Variant, list[e.Event]]] = [
        (PRESUMED_ABORT, []),
        (PRESUMED_ABORT, begun),
        (PRESUMED_COMMIT, asked),
        (PRESUMED_ABORT, asked),
        (LAST_AGENT, [*asked, yes[0]]),
        (LAST_AGENT, [*asked, yes[0], e.VoteUnknown(participant="b")]),
        (PRESUMED_ABORT, [*asked, *yes]),
        (PRESUMED_ABORT, [*asked, *yes, e.LogUnknown(record=RECORD)]),
        (PRESUMED_NOTHING, no),
        (PRESUMED_ABORT, [*asked, *yes, e.Logged(record=RECORD)]),
        (PRESUMED_ABORT.on_postgres(), no),
        (PRESUMED_ABORT, no),
    ]
    for variant, events in ways:
        machine = Coordinator(Settings(variant=variant))
        for event in events:
            machine.receive(event, 0.0)
        yield machine


def participants() -> Iterator[Participant]:
    """Yield a participant in each state, by the shortest way."""
    prepared = Record(kind=RecordKind.PREPARED, participants=("a", "b"))
    working: list[e.Event] = [e.WorkBegun(), e.Wrote()]
    preparing = [*working, e.PrepareAsked(participants=("a", "b"))]
    in_doubt = [*preparing, e.Logged(record=prepared)]
    for events in (
        [],
        working,
        preparing,
        in_doubt,
        [*working, e.DecideAsked(participants=("a",))],
        [*in_doubt, e.CommitTold()],
        [*in_doubt, e.FenceTold()],
        [*in_doubt, e.AbortTold()],
    ):
        machine = Participant(Settings(variant=PRESUMED_ABORT))
        for event in events:
            machine.receive(event, 0.0)
        yield machine


def test_all_states_are_tried() -> None:
    """`coordinators` and `participants` yield a machine in every state."""
    assert [machine.state for machine in coordinators()] == list(CoordinatorState)
    assert [machine.state for machine in participants()] == list(ParticipantState)


REFUSED = [
    pytest.param(machine, event, id=f"{place(machine.state)}-{type(event).__name__}")
    for machine in (*coordinators(), *participants())
    for event in every_event()
    if (machine.state, type(event)) not in machine.table
]


@pytest.mark.parametrize(("machine", "event"), REFUSED)
def test_what_is_not_in_the_table(machine: Machine, event: e.Event) -> None:
    """An event without a row raises an error that names state and event, and changes nothing."""
    before = fingerprint(machine)
    error = RemoteProtocolError if event.remote else LocalProtocolError

    with pytest.raises(error, match=f"in state {machine.state}: {type(event).__name__}"):
        machine.receive(event, 0.0)

    assert fingerprint(machine) == before


@pytest.mark.parametrize(
    ("state", "event", "remote"),
    [
        (CoordinatorState.NEW, e.Begin(participants=()), False),
        (CoordinatorState.NEW, e.Begin(participants=("a", "a")), False),
        (CoordinatorState.NEW, e.Begin(participants=("a", x.COORDINATOR)), False),
        (CoordinatorState.COLLECTING, e.Logged(record=RECORD), False),
        (CoordinatorState.VOTING, e.VotedYes(participant="z"), True),
        (CoordinatorState.VOTING, e.VoteUnknown(participant="z"), False),
        (CoordinatorState.VOTING, e.Inquired(participant="z"), True),
        (CoordinatorState.DELEGATING, e.BranchCommitted(participant="a"), True),
        (CoordinatorState.DELEGATING, e.BranchAborted(participant="a"), True),
        (CoordinatorState.DECIDING, e.Logged(record=Record(kind=RecordKind.ABORT)), False),
        (CoordinatorState.DECIDING, e.VotedNo(participant="a"), True),
        (CoordinatorState.READING_BACK, e.LogFound(record=Record(kind=RecordKind.END)), False),
        (CoordinatorState.COMMITTING, e.BranchCommitted(participant="z"), True),
        (CoordinatorState.COMMITTING, e.BranchAborted(participant="z"), True),
        (CoordinatorState.COMMITTING, e.AckLost(participant="z"), False),
        (CoordinatorState.COMMITTING, e.Inquired(participant="z"), True),
        (CoordinatorState.ENDED, e.BranchCommitted(participant="z"), True),
    ],
)
def test_right_event_wrong_content(state: CoordinatorState, event: e.Event, remote: bool) -> None:
    """An event about a wrong participant or record raises an error and changes nothing."""
    machine = next(machine for machine in coordinators() if machine.state is state)
    before = fingerprint(machine)

    with pytest.raises(RemoteProtocolError if remote else LocalProtocolError):
        machine.receive(event, 0.0)

    assert fingerprint(machine) == before


def test_read_only_is_not_acknowledged() -> None:
    """An acknowledgement of a commit by a branch that voted read-only is refused."""
    machine = Coordinator(Settings(variant=PRESUMED_ABORT))
    for event in (
        e.Begin(participants=("a", "b")),
        e.CommitAsked(),
        e.VotedReadOnly(participant="a"),
        e.VotedYes(participant="b"),
        e.Logged(record=Record(kind=RecordKind.COMMIT, participants=("b",))),
    ):
        machine.receive(event, 0.0)

    with pytest.raises(RemoteProtocolError, match="acknowledges what it was not told"):
        machine.receive(e.BranchCommitted(participant="a"), 0.0)


def test_participant_checks_the_record() -> None:
    """A report about another record is an error of the driver."""
    machine = next(m for m in participants() if m.state is ParticipantState.PREPARING)

    with pytest.raises(LocalProtocolError, match="not about the record being logged"):
        machine.receive(e.Logged(record=RECORD), 0.0)


def test_read_only_is_not_told() -> None:
    """A branch that voted read-only refuses a commit."""
    machine = Participant(Settings(variant=PRESUMED_ABORT))
    machine.receive(e.WorkBegun(), 0.0)
    machine.receive(e.PrepareAsked(participants=("a",)), 0.0)

    with pytest.raises(RemoteProtocolError, match="left with its vote"):
        machine.receive(e.CommitTold(), 0.0)


def test_clones_share_nothing() -> None:
    """A clone does not change its original, on which the walks rely."""
    original = next(m for m in coordinators() if m.state is CoordinatorState.VOTING)
    registry = Registry()
    frozen = registry.freeze(original)

    moved, _ = frozen.receive(e.VotedYes(participant="a"))

    assert moved is not frozen
    assert registry.freeze(clone(original)) is frozen
