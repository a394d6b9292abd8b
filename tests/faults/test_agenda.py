"""When faults strike and heal, decided without servers and without a model."""

from __future__ import annotations

import pytest

from twopc.sim.faults.agenda import Agenda
from twopc.sim.faults.plans import Arrival, FaultAction, FaultPlace, FaultPlan, Heal
from twopc.sim.scenario.values import FaultStrike

POINT = "coordinator.decision_logged"


def plan(name: str = "f", *, heal: Heal | None = None, **place: object) -> FaultPlan:
    return FaultPlan(
        id=name,
        place=FaultPlace(point=POINT, **place),  # type: ignore[arg-type] # whichever fields a test names
        deed=FaultAction(verb="pause", what="coordinator"),
        heal=heal or Heal(),
    )


def test_it_strikes_at_the_arrival_that_counts() -> None:
    """A fault strikes once, at its arrival; other points and other sessions do not count."""
    fault = plan(nth=2, session="alice")
    agenda: Agenda[str] = Agenda([fault])
    assert agenda.arrived(POINT, session="alice", gid="") == ([], [])  # nothing is armed
    agenda.arm("f")
    for point, session in (
        (POINT, "alice"), (POINT, "bob"), ("coordinator.begun", "alice"),
    ):  # fmt: skip
        assert agenda.arrived(point, session=session, gid="") == ([], [])
    assert agenda.arrived(POINT, session="alice", gid="") == ([], [fault])
    agenda.strike(fault)
    assert not agenda.is_armed("f")
    agenda.note(fault, Arrival(point=POINT))
    assert agenda.fired() == [FaultStrike(fault="f", point=POINT)]
    assert agenda.fired() == []
    assert agenda.arrived(POINT, session="alice", gid="") == ([], [])


def test_an_arrival_of_no_known_session_counts() -> None:
    """An arrival without a session counts, since an initial copy belongs to none."""
    fault = plan(session="alice")
    agenda: Agenda[str] = Agenda([fault])
    agenda.arm("f")
    assert agenda.arrived(POINT, session=None, gid="") == ([], [fault])


@pytest.mark.parametrize("when", ["end", "never", "after", "at"])
def test_when_it_heals(when: str) -> None:
    """A fault heals only if something is broken, and only once."""
    fault = plan(heal=Heal(when=when, after_ms=1500, point=POINT))  # type: ignore[arg-type] # one of them
    agenda: Agenda[str] = Agenda([fault])
    assert (agenda.heals_after_s(fault), agenda.heals_at(fault), agenda.broken()) == (None, (), [])
    agenda.breaks(fault, "start it")
    assert agenda.heals_after_s(fault) == (1.5 if when == "after" else None)
    assert agenda.broken() == ([] if when == "never" else [fault])
    assert agenda.broken(for_good=True) == [fault]
    occasions = agenda.heals_at(fault)
    assert bool(occasions) == (when == "at")
    for name, place in occasions:
        assert agenda.healed_by(name) == "f"
        agenda.occasions.add(name, place)
        assert agenda.arrived(POINT, session="bob", gid="") == (["f"], [])
    assert agenda.healed_by("f") == ""
    assert agenda.mend("f") == "start it"
    assert agenda.mend("f") is None
    assert agenda.broken(for_good=True) == []
