"""Tests of the invariants, with constructed evidence of each violation, and correct evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.grid.invariants import INVARIANTS, Evidence, broken
from tests.grid.program import Answered, Traced
from tests.grid.rig import PUBLISHER, SITES, SUBSCRIBER, SiteState, State
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.effects import Message, RecordKind

GID = "twopc:c1:1:2"
BEFORE, AFTER = (100, "v1"), (101, "v2")
DECISION = x.record_of(RecordKind.COMMIT, SITES)


def site(
    name: str, how: str, row: tuple[Any, ...] | None = None, *, others: tuple[str, ...] = ()
) -> SiteState:
    """Return a site with a branch that is ``committed``, ``prepared``, ``fenced`` or ``absent``."""
    gid = f"{GID}:{name}"
    markers = {"committed": ((gid, False),), "fenced": ((gid, True),)}.get(how, ())
    return SiteState(
        prepared=((gid,) if how == "prepared" else ()) + others,
        markers=markers,
        row=row or (AFTER if how == "committed" else BEFORE),
    )


def state(
    publisher: str,
    subscriber: str,
    *decisions: tuple[int, int, str],
    row_there: Any = None,
    row_here: Any = None,
) -> State:
    """Return the state of both sites and the decision log.

    Rows match the branches, or are as given.
    """
    return State(
        sites={
            PUBLISHER: site(PUBLISHER, publisher, row_there),
            SUBSCRIBER: site(SUBSCRIBER, subscriber, row_here),
        },
        decisions=decisions,
    )


def trace(*what: x.Effect | e.Event) -> tuple[Traced, ...]:
    """Return a trace of these effects and events."""
    return tuple(Traced(GID, one) for one in what)


ASKED = [x.send(name, Message.PREPARE, SITES) for name in SITES]
VOTED = [e.VotedYes(participant=name) for name in SITES]
DECIDED: list[x.Effect | e.Event] = [
    x.log(RecordKind.COMMIT, SITES, forced=True),
    e.Logged(record=DECISION),
]
TOLD = [x.send(name, Message.COMMIT) for name in SITES]

NOTHING = state("absent", "absent")
PREPARED = state("prepared", "prepared")
HALF = state("committed", "prepared", (1, 2, "commit"))
DONE = state("committed", "committed")

COMMITTED = Evidence(
    gid=GID,
    trace=trace(*ASKED, *VOTED, *DECIDED, *TOLD),
    answer=Answered("committed"),
    states=(NOTHING, PREPARED, HALF, DONE, DONE),
    others=(("theirs", "77"),),
    others_after=(("theirs", "77"),),
)
ABORTED = replace(
    COMMITTED,
    trace=trace(*ASKED, VOTED[0], e.VotedNo(participant=SUBSCRIBER)),
    answer=Answered("aborted", "VoteError"),
    states=(
        NOTHING,
        state("prepared", "absent"),
        state("fenced", "absent"),
        state("fenced", "absent"),
    ),
)


@pytest.mark.parametrize(
    "evidence",
    [
        COMMITTED,
        ABORTED,
        replace(COMMITTED, answer=None),
        replace(COMMITTED, answer=Answered("in_doubt")),
        replace(ABORTED, answer=Answered("in_doubt")),
        replace(
            COMMITTED,
            last_agent=SUBSCRIBER,
            trace=trace(
                ASKED[0], VOTED[0], x.send(SUBSCRIBER, Message.DECIDE, (PUBLISHER,)),
                e.BranchCommitted(participant=SUBSCRIBER), TOLD[0],
            ),
            states=(NOTHING, state("prepared", "committed"), DONE, DONE),
        ),
        Evidence(gid="", states=(NOTHING, NOTHING, NOTHING)),
    ],
)  # fmt: skip
def test_all_hold(evidence: Evidence) -> None:
    assert broken(evidence) == []


def ended(*states: State) -> tuple[State, ...]:
    """Return the states, from the initial one."""
    return (NOTHING, *states)


BREACHES: list[tuple[str, str, Evidence]] = [
    ("I1", "committed at one site only",
     replace(COMMITTED, answer=None, states=ended(state("committed", "absent"))),),
    ("I1", "the rows differ",
     replace(COMMITTED, states=ended(state("committed", "committed", row_there=(7, "v3"))))),
    ("I1", "committed, and the row is as before",
     replace(COMMITTED,
             states=ended(state("committed", "committed", row_there=BEFORE, row_here=BEFORE)))),
    ("I1", "changed without a branch",
     replace(ABORTED, states=ended(state("absent", "absent", row_there=AFTER, row_here=AFTER)))),
    ("I2", "decided without a vote",
     replace(COMMITTED, trace=trace(*ASKED, VOTED[0], *DECIDED, *TOLD))),
    ("I2", "committed without being asked", replace(COMMITTED, trace=())),
    ("I3", "answered committed, and is not", replace(ABORTED, answer=Answered("committed"))),
    ("I3", "answered aborted, and is committed", replace(COMMITTED, answer=Answered("aborted"))),
    ("I4", "committed, then fenced",
     replace(ABORTED, states=ended(state("committed", "absent"), state("fenced", "absent")))),
    ("I4", "fenced, then committed",
     replace(COMMITTED, states=ended(state("fenced", "prepared"), DONE, DONE))),
    ("I5", "prepared after recovery", replace(COMMITTED, answer=None, states=ended(HALF, HALF))),
    ("I5", "a decision kept for ever",
     replace(COMMITTED, states=ended(*[state("committed", "committed", (1, 2, "commit"))] * 2))),
    ("I6", "another's branch finished", replace(COMMITTED, others_after=())),
    ("I6", "another's branch prepared anew", replace(COMMITTED, others_after=(("theirs", "78"),))),
    ("I7", "told before the decision was durable",
     replace(COMMITTED, trace=trace(*ASKED, *VOTED, DECIDED[0], *TOLD, DECIDED[1]))),
    ("I7", "told before the last agent had decided",
     replace(COMMITTED, last_agent=SUBSCRIBER, trace=trace(ASKED[0], VOTED[0], TOLD[0]))),
    ("I8", "forgotten before all were told",
     replace(COMMITTED, states=ended(state("committed", "prepared"), DONE, DONE))),
    ("I9", "recovered otherwise the second time",
     replace(ABORTED, states=ended(state("absent", "absent"), state("fenced", "absent")))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "what", "evidence"), BREACHES)
def test_a_breach_is_seen(name: str, what: str, evidence: Evidence) -> None:
    found = broken(evidence)
    assert name in {line.partition(":")[0] for line in found}, f"{what}: {found}"


def test_every_invariant_has_a_breach() -> None:
    assert {name for name, _, _ in BREACHES} == set(INVARIANTS)
