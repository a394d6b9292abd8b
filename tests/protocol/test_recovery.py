"""Tests of machines rebuilt from a log, and of the verdict about a prepared branch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.protocol.step import rebuild_participant
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.coordinator import Coordinator
from twopc.protocol.effects import COORDINATOR, Message, Outcome, Record, RecordKind, Timer, send
from twopc.protocol.participant import Participant
from twopc.protocol.recovery import (
    Action,
    BranchFacts,
    answer,
    decide,
    rebuild_coordinator,
    resolve,
)
from twopc.protocol.states import CoordinatorState, ParticipantState
from twopc.protocol.variants import (
    LAST_AGENT,
    PRESUMED_ABORT,
    PRESUMED_COMMIT,
    PRESUMED_NOTHING,
    Settings,
    Variant,
)

COLLECTING = Record(kind=RecordKind.COLLECTING, participants=("a", "b"))
COMMIT = Record(kind=RecordKind.COMMIT, participants=("a", "b"))
ABORT = Record(kind=RecordKind.ABORT, participants=("a", "b"))
END = Record(kind=RecordKind.END)
PREPARED = Record(kind=RecordKind.PREPARED, participants=("a", "b"))
RESEND = x.SetTimer(name=Timer.RESEND, at=11.0)
COMMITS = (send("a", Message.COMMIT), send("b", Message.COMMIT))
FENCES = (send("a", Message.FENCE), send("b", Message.FENCE))


@pytest.mark.parametrize(
    ("variant", "records", "effects", "state"),
    [
        (PRESUMED_ABORT, (), None, "new"),
        (PRESUMED_ABORT, (COMMIT,), (*COMMITS, RESEND), "committing"),
        (PRESUMED_ABORT, (COMMIT, END), None, "new"),
        (PRESUMED_COMMIT, (), None, "new"),
        (PRESUMED_COMMIT, (COLLECTING,), (*FENCES, RESEND), "aborting"),
        (PRESUMED_COMMIT, (COLLECTING, ABORT), (*FENCES, RESEND), "aborting"),
        (PRESUMED_COMMIT, (COLLECTING, ABORT, END), None, "new"),
        (PRESUMED_COMMIT, (COLLECTING, COMMIT), None, "new"),
        (PRESUMED_NOTHING, (ABORT,), (*FENCES, RESEND), "aborting"),
        (PRESUMED_NOTHING, (COMMIT,), (*COMMITS, RESEND), "committing"),
    ],
)
def test_coordinator_from_its_log(
    variant: Variant, records: tuple[Record, ...], effects: object, state: str
) -> None:
    """A decision that was not forgotten is sent again; presumption covers all others."""
    settings = Settings(variant=variant)
    machine = Coordinator(settings)

    assert rebuild_coordinator(machine, settings, records, 10.0) == effects
    assert machine.state == state


def test_rebuilt_coordinator_answers_nobody() -> None:
    """A rebuilt coordinator never answers the application, which ended with the old machine."""
    settings = Settings(variant=PRESUMED_ABORT, answer_early=False)
    machine = Coordinator(settings)
    rebuild_coordinator(machine, settings, (COMMIT,), 0.0)

    machine.receive(e.BranchCommitted(participant="a"), 0.0)
    effects = machine.receive(e.BranchCommitted(participant="b"), 0.0)

    assert [type(effect) for effect in effects] == [x.CancelTimer, x.Log]


def test_rebuilt_coordinator_finishes_in_turn() -> None:
    """A rebuilt coordinator keeps the order in which branches are finished."""
    settings = Settings(variant=PRESUMED_ABORT, finish_in_turn=True)
    machine = Coordinator(settings)

    assert rebuild_coordinator(machine, settings, (COMMIT,), 10.0) == (COMMITS[0], RESEND)


@pytest.mark.parametrize(
    ("variant", "records", "message"),
    [
        (PRESUMED_ABORT, (), Message.ABORT),
        (PRESUMED_ABORT, (COMMIT,), Message.COMMIT),
        (PRESUMED_ABORT, (COMMIT, END), Message.COMMIT),
        (PRESUMED_COMMIT, (), Message.COMMIT),
        (PRESUMED_COMMIT, (COLLECTING,), Message.ABORT),
        (PRESUMED_COMMIT, (COLLECTING, ABORT, END), Message.ABORT),
        (PRESUMED_NOTHING, (), Message.ABORT),
        (PRESUMED_NOTHING, (ABORT,), Message.ABORT),
        (LAST_AGENT, (), None),
    ],
)
def test_answer(variant: Variant, records: tuple[Record, ...], message: Message | None) -> None:
    """An inquiry is answered by the log, else by presumption; with last agent by neither."""
    assert answer(variant, records) is message


def test_resolver_commits() -> None:
    """A branch whose last agent has committed is told to commit."""
    machine = Coordinator(Settings(variant=LAST_AGENT))

    assert resolve(machine, "a", "b", 10.0) == (send("b", Message.FENCE), RESEND)
    assert machine.state is CoordinatorState.RESOLVING
    effects = machine.receive(e.BranchCommitted(participant="b"), 10.0)
    assert effects == (x.CancelTimer(name=Timer.RESEND), COMMITS[0], RESEND)


def test_resolver_aborts() -> None:
    """A branch whose last agent has not committed, and is fenced, is told to abort."""
    machine = Coordinator(Settings(variant=LAST_AGENT))
    resolve(machine, "a", "b", 10.0)

    effects = machine.receive(e.BranchAborted(participant="b"), 10.0)

    assert effects == (x.CancelTimer(name=Timer.RESEND), send("a", Message.ABORT))


@pytest.mark.parametrize(
    ("kinds", "state", "outcome"),
    [
        ((), ParticipantState.NEW, None),
        ((RecordKind.PREPARED,), ParticipantState.PREPARED, None),
        ((RecordKind.PREPARED, RecordKind.COMMITTED), ParticipantState.ENDED, Outcome.COMMITTED),
        ((RecordKind.PREPARED, RecordKind.ABORTED), ParticipantState.ENDED, Outcome.ABORTED),
        ((RecordKind.COMMITTED,), ParticipantState.ENDED, Outcome.COMMITTED),
        ((RecordKind.ABORTED,), ParticipantState.ENDED, Outcome.ABORTED),
    ],
)
def test_participant_from_its_log(
    kinds: tuple[RecordKind, ...], state: ParticipantState, outcome: Outcome | None
) -> None:
    """A branch that was prepared is rebuilt and inquires at once; others are not in doubt."""
    machine = Participant(Settings())

    effects = rebuild_participant(machine, [Record(kind=kind) for kind in kinds], 10.0)

    assert (machine.state, machine.outcome) == (state, outcome)
    inquiry = (
        send(COORDINATOR, Message.INQUIRE),
        x.SetTimer(name=Timer.INQUIRY, at=11.0),
    )
    assert effects == (inquiry if state is ParticipantState.PREPARED else ())


DEAD = BranchFacts(is_own=True, alive=False, records=())


@pytest.mark.parametrize(
    ("found", "variant", "action", "reason"),
    [
        (replace(DEAD, is_own=False), PRESUMED_ABORT, Action.LEAVE, "not a branch of ours"),
        (replace(DEAD, is_own=False, records=None), PRESUMED_ABORT, Action.LEAVE, "not a branch"),
        (replace(DEAD, alive=True), PRESUMED_ABORT, Action.LEAVE, "coordinator is alive"),
        (replace(DEAD, alive=True, records=(COMMIT,)), PRESUMED_ABORT, Action.LEAVE, "alive"),
        (DEAD, PRESUMED_ABORT, Action.ABORT, "aborted is presumed"),
        (DEAD, PRESUMED_COMMIT, Action.COMMIT, "committed is presumed"),
        (DEAD, PRESUMED_NOTHING, Action.ABORT, "aborted is presumed"),
        (replace(DEAD, records=(COMMIT,)), PRESUMED_ABORT, Action.COMMIT, "says commit"),
        (replace(DEAD, records=(COLLECTING,)), PRESUMED_COMMIT, Action.ABORT, "says collecting"),
        (replace(DEAD, records=(ABORT,)), PRESUMED_NOTHING, Action.ABORT, "says abort"),
        (replace(DEAD, agent="b"), LAST_AGENT, Action.ASK_AGENT, "b decides"),
        (DEAD, LAST_AGENT, Action.ASK_AGENT, "it decides"),
        (replace(DEAD, agent="b", records=None), LAST_AGENT, Action.ASK_AGENT, "b decides"),
        (
            replace(DEAD, agent="b", peers={"b": Outcome.COMMITTED}),
            LAST_AGENT,
            Action.COMMIT,
            "b decided: committed",
        ),
        (
            replace(DEAD, agent="b", peers={"b": Outcome.ABORTED}),
            LAST_AGENT,
            Action.ABORT,
            "b decided: aborted",
        ),
        (
            replace(DEAD, records=None, peers={"b": Outcome.COMMITTED, "c": Outcome.READ_ONLY}),
            PRESUMED_ABORT,
            Action.COMMIT,
            "log is lost; b is committed",
        ),
        (
            replace(DEAD, records=None, peers={"b": Outcome.ABORTED}),
            PRESUMED_ABORT,
            Action.ABORT,
            "log is lost; b is aborted",
        ),
        (replace(DEAD, records=None), PRESUMED_ABORT, Action.BLOCK, "restore the log"),
        (replace(DEAD, records=None), PRESUMED_COMMIT, Action.BLOCK, "no other branch knows"),
        (
            replace(DEAD, records=None, peers={"b": Outcome.COMMITTED, "c": Outcome.ABORTED}),
            PRESUMED_ABORT,
            Action.BLOCK,
            "ended differently",
        ),
    ],
)
def test_branch_found_prepared(
    found: BranchFacts, variant: Variant, action: Action, reason: str
) -> None:
    """The log, a peer or the last agent decides; without any of them the branch blocks."""
    verdict = decide(found, variant)

    assert verdict.action is action
    assert reason in verdict.reason


def test_a_lost_log_is_not_an_empty_log() -> None:
    """Nothing is presumed if the log is lost: even presumed commit blocks."""
    for variant in (PRESUMED_ABORT, PRESUMED_COMMIT, PRESUMED_NOTHING):
        assert decide(DEAD, variant).action in (Action.ABORT, Action.COMMIT)
        assert decide(replace(DEAD, records=None), variant).action is Action.BLOCK
