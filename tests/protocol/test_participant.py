"""Step-by-step tests of a participant: times, order and messages, which walks do not check."""

from __future__ import annotations

from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.effects import (
    COORDINATOR,
    Effect,
    Message,
    Outcome,
    Record,
    RecordKind,
    Timer,
    send,
)
from twopc.protocol.participant import Participant
from twopc.protocol.states import ParticipantState
from twopc.protocol.variants import PRESUMED_ABORT, Settings

SETTINGS = Settings(variant=PRESUMED_ABORT, inquiry_s=3.0, idle_timeout_s=7.0)


def run(machine: Participant, *events: e.Event, now: float = 0.0) -> tuple[Effect, ...]:
    """Feed the events, and return the effects of the last one."""
    effects: tuple[Effect, ...] = ()
    for event in events:
        effects = machine.receive(event, now)
    return effects


def prepared() -> Participant:
    """Return a participant that has voted yes."""
    machine = Participant(SETTINGS)
    run(machine, e.WorkBegun(), e.Wrote(), e.PrepareAsked(participants=("pub", "sub")))
    run(machine, e.Logged(record=Record(kind=RecordKind.PREPARED, participants=("pub", "sub"))))
    return machine


def test_branch() -> None:
    """A complete branch with presumed abort."""
    machine = Participant(SETTINGS)
    record = Record(kind=RecordKind.PREPARED, participants=("pub", "sub"))
    committed = Record(kind=RecordKind.COMMITTED)

    assert run(machine, e.WorkBegun(), now=10.0) == (x.SetTimer(name=Timer.IDLE, at=17.0),)
    assert run(machine, e.Wrote()) == ()
    assert run(machine, e.PrepareAsked(participants=("pub", "sub"))) == (
        x.CancelTimer(name=Timer.IDLE),
        x.Log(record=record, forced=True),
    )
    inquiry = x.SetTimer(name=Timer.INQUIRY, at=23.0)
    assert run(machine, e.Logged(record=record), now=20.0) == (
        send(COORDINATOR, Message.VOTE_YES),
        inquiry,
    )
    assert run(machine, e.TimerFired(name=Timer.INQUIRY), now=20.0) == (
        send(COORDINATOR, Message.INQUIRE),
        inquiry,
    )
    assert run(machine, e.CommitTold()) == (
        x.CancelTimer(name=Timer.INQUIRY),
        x.Log(record=committed, forced=True),
    )
    assert run(machine, e.Logged(record=committed)) == (send(COORDINATOR, Message.COMMITTED),)


def test_failed_branch_votes_no() -> None:
    """A branch with an error that the application has swallowed votes no."""
    machine = Participant(SETTINGS)
    run(machine, e.WorkBegun(), e.Wrote(), e.WorkFailed(reason="40001"))

    assert run(machine, e.PrepareAsked(participants=("pub",))) == (
        x.Send(to=COORDINATOR, message=Message.VOTE_NO, reason="40001"),
    )


def test_idle_branch_rolls_back() -> None:
    """An idle branch rolls back unless it is prepared."""
    machine = Participant(SETTINGS)
    run(machine, e.WorkBegun(), e.TimerFired(name=Timer.IDLE))

    assert machine.outcome is Outcome.ABORTED
    in_doubt = prepared()
    assert run(in_doubt, e.TimerFired(name=Timer.IDLE)) == ()
    assert in_doubt.state is ParticipantState.PREPARED


def test_fence_waits_for_prepare() -> None:
    """A fence during a prepare is acknowledged only when the late prepare has been rolled back."""
    machine = Participant(SETTINGS)
    record = Record(kind=RecordKind.PREPARED, participants=("pub",))
    run(machine, e.WorkBegun(), e.Wrote(), e.PrepareAsked(participants=("pub",)))
    aborted = Record(kind=RecordKind.ABORTED)

    assert run(machine, e.FenceTold()) == ()
    assert run(machine, e.Logged(record=record)) == (x.Log(record=aborted, forced=True),)
    assert run(machine, e.Logged(record=aborted)) == (send(COORDINATOR, Message.ABORTED),)


def test_fence_before_prepare() -> None:
    """A prepare that arrives after the fence is refused."""
    machine = Participant(SETTINGS)
    run(machine, e.WorkBegun(), e.Wrote())

    assert send(COORDINATOR, Message.ABORTED) in run(machine, e.FenceTold())
    effects = run(machine, e.PrepareAsked(participants=("pub",)))
    assert effects == (x.Send(to=COORDINATOR, message=Message.VOTE_NO, reason="told to abort"),)


def test_finishing_fails() -> None:
    """A COMMIT PREPARED that fails leaves the branch in doubt."""
    machine = prepared()
    run(machine, e.CommitTold())

    run(machine, e.LogFailed(record=Record(kind=RecordKind.COMMITTED)))

    assert (machine.state, machine.outcome) == (ParticipantState.PREPARED, None)
    assert run(machine, e.CommitTold()) != ()
