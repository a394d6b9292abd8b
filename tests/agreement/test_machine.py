"""Tests of random schedules at the Publisher and two Subscribers: the model does what servers do.

After every item, the states and waits of all sessions are compared; at the end every outcome, every row, all
deliveries, prepared transactions and markers. ``pytest tests/agreement --hypothesis-profile=thorough`` draws more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings as profile
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.agreement.bench import Both, races
from tests.agreement.vocabulary import ENDS, SCENARIO, SESSIONS, STEERING, SYNCS, as_file, changes
from twopc.sim.scenario.model import OrderItem

_THOROUGH = any("--hypothesis-profile" in each for each in sys.argv)
_CHANGES = [word for word, _ in changes()]
_EVERYBODY = tuple(OrderItem(step=f"{name}_begin") for name in SESSIONS)


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    made = Both()
    yield made
    made.close()


class Schedules(RuleBasedStateMachine):
    """Draws schedules for both."""

    both: Both

    def __init__(self) -> None:
        super().__init__()
        self.items: list[OrderItem] = []
        self.standing: dict[str, str] = {}
        self.over = False

    @initialize()
    def begin(self) -> None:
        self.both.begin(SCENARIO, _EVERYBODY)
        self.standing = dict.fromkeys(SESSIONS, "idle")

    def free(self, *, in_transaction: bool | None = None) -> list[str]:
        """Return the sessions that can execute a step."""
        if self.over:
            return []
        wanted = {True: ("in a transaction",), False: ("idle",)}.get(
            in_transaction, ("idle", "in a transaction")
        )
        return [name for name, doing in self.standing.items() if doing in wanted]

    def play(self, item: OrderItem) -> None:
        self.items.append(item)
        mine, theirs = self.both.item(item)
        assert mine == theirs, f"{as_file(self.items)}\nPostgreSQL: {mine}\nthe model: {theirs}"
        self.standing = mine
        self.over = races(mine)

    @rule(data=st.data())
    @precondition(lambda self: self.free(in_transaction=False))
    def begin_transaction(self, data: st.DataObject) -> None:
        self.step(data, self.free(in_transaction=False), ["begin"])

    @rule(data=st.data())
    @precondition(lambda self: self.free())
    def change(self, data: st.DataObject) -> None:
        self.step(data, self.free(), _CHANGES)

    @rule(data=st.data())
    @precondition(lambda self: self.free(in_transaction=True))
    def steer(self, data: st.DataObject) -> None:
        self.step(data, self.free(in_transaction=True), [*STEERING])

    @rule(data=st.data())
    @precondition(lambda self: self.free(in_transaction=True))
    def end_transaction(self, data: st.DataObject) -> None:
        self.step(data, self.free(in_transaction=True), [*ENDS, "commit", "commit"])

    @rule(subscribers=st.sampled_from([("sub1",), ("sub2",), SYNCS]))
    @precondition(lambda self: not self.over)
    def sync(self, subscribers: tuple[str, ...]) -> None:
        self.play(OrderItem(sync=subscribers))

    def step(self, data: st.DataObject, sessions: list[str], words: list[str]) -> None:
        name = data.draw(st.sampled_from(sessions), label="session")
        word = data.draw(st.sampled_from(words), label="step")
        self.play(OrderItem(step=f"{name}_{word}"))

    @rule()
    @precondition(lambda self: self.over)
    def nothing(self) -> None:
        """Do nothing: two sessions wait, and the result on servers would be random."""

    def teardown(self) -> None:
        if self.over:
            self.both.leave()
            return
        try:
            told = [each.text("PostgreSQL", "the model") for each in self.both.end()]
        except BaseException:
            self.both.leave()
            raise
        assert not told, "\n".join([as_file(self.items), *told])


@pytest.mark.postgres
def test_random_schedules(both: Both) -> None:
    name = profile.get_current_profile_name() if _THOROUGH else "both"
    made = type("Drawn", (Schedules,), {"both": both})
    run_state_machine_as_test(made, settings=profile.get_profile(name))
