"""M9, M10: Tests of lost commands and lost answers.

A proxy that looks for the command's text really closes the sockets. An outcome that can still be
asked for is definite; only others are in doubt.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.crash.here import Here, wires_to
from tests.grid.cells import Kind
from tests.grid.program import NO_PUBLISHER, NO_SUBSCRIBER
from tests.grid.rig import LOG, PUBLISHER, SUBSCRIBER, Rig

ABORT = Kind(ending=NO_SUBSCRIBER)
COMMIT = Kind()
AGENT = Kind(commit="last_agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A message that is lost, and the expected outcomes."""

    kind: Kind
    node: str
    text: bytes
    """Text in the request."""
    outcome: str
    """Outcome if the answer is lost."""
    unsent: str
    """Outcome if the request is lost."""
    apart: str
    """The application's answer if the answer is lost and the node cannot be reached afterwards."""


LOSSES = {
    "PREPARE at the Subscriber": Loss(
        kind=COMMIT, node=SUBSCRIBER, text=b"prepare transaction",
        outcome="aborted", unsent="aborted", apart="aborted",
    ),
    "the decision": Loss(
        kind=COMMIT, node=LOG, text=b"log_decisions",
        outcome="committed", unsent="aborted", apart="in_doubt",
    ),
    "the names that presumed commit collects": Loss(
        kind=Kind(commit="presumed_commit"), node=LOG, text=b"{collecting}",
        outcome="aborted", unsent="aborted", apart="aborted",
    ),
    "the abort decision of presumed nothing": Loss(
        kind=Kind(commit="presumed_nothing", ending=NO_SUBSCRIBER), node=LOG, text=b"{abort}",
        outcome="aborted", unsent="aborted", apart="aborted",
    ),
    "COMMIT PREPARED at the Publisher": Loss(
        kind=COMMIT, node=PUBLISHER, text=b"commit prepared",
        outcome="committed", unsent="committed", apart="committed",
    ),
    "COMMIT PREPARED at the Subscriber": Loss(
        kind=COMMIT, node=SUBSCRIBER, text=b"commit prepared",
        outcome="committed", unsent="committed", apart="committed",
    ),
    "ROLLBACK PREPARED at the Publisher": Loss(
        kind=ABORT, node=PUBLISHER, text=b"rollback prepared",
        outcome="aborted", unsent="aborted", apart="aborted",
    ),
    "COMMIT of the last agent": Loss(
        kind=AGENT, node=SUBSCRIBER, text=b"call msrepl.prepare_publisher",
        outcome="committed", unsent="aborted", apart="in_doubt",
    ),
    "the fence of the last agent": Loss(
        kind=Kind(commit="last_agent", ending=NO_PUBLISHER), node=SUBSCRIBER, text=b"fence_branch",
        outcome="aborted", unsent="aborted", apart="aborted",
    ),
    "COMMIT PREPARED after the last agent": Loss(
        kind=AGENT, node=PUBLISHER, text=b"commit prepared",
        outcome="committed", unsent="committed", apart="committed",
    ),
}  # fmt: skip


@pytest.mark.sample(1, by=("name",))
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("lost", ["request", "answer", "answer, and the node for a while"])
async def test_a_lost_message_leaves_nothing_open(rig: Rig, name: str, lost: str) -> None:
    loss = LOSSES[name]
    here = Here(rig, loss.kind)
    async with wires_to(rig, loss.node) as wires:
        wire = wires[loss.node]
        async with here.open(wires) as coordinator:
            if lost == "request":
                wire.lost_request = loss.text
            else:
                wire.lost_answer = loss.text
                wire.then_down = lost != "answer"
            answer = await here.transact()
            assert wire.times_cut == 1, "the message was never sent"
            expected = {"request": loss.unsent, "answer": loss.outcome}.get(lost, loss.apart)
            assert answer.outcome == expected, answer
            wire.mend()
            await coordinator.recover()
            await here.look()
    result = await here.judge(name, "M9/M10")
    assert result.broken == ()
    assert result.found_prepared == 0, "the coordinator's own recovery had settled it"
    assert result.outcome == (loss.unsent if lost == "request" else loss.outcome)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("torn", ["request", "answer"])
async def test_a_torn_message_is_a_lost_one(rig: Rig, name: str, torn: str) -> None:
    """M7: A connection that is closed after half of a message counts as a lost message."""
    loss = LOSSES[name]
    here = Here(rig, loss.kind)
    async with wires_to(rig, loss.node) as wires:
        wire = wires[loss.node]
        async with here.open(wires) as coordinator:
            wire.is_torn = True
            setattr(wire, f"lost_{torn}", loss.text)
            answer = await here.transact()
            assert wire.times_cut == 1, "the message was never sent"
            expected = loss.unsent if torn == "request" else loss.outcome
            assert answer.outcome == expected, answer
            await coordinator.recover()
            await here.look()
    first, last = here.seen.states[0], here.seen.states[-1]
    rows = {held.row[0] for held in last.sites.values()}
    assert rows == {first.sites[PUBLISHER].row[0] + (expected == "committed")}
    assert not any(held.prepared for held in last.sites.values())
