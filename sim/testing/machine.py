"""A state machine of Hypothesis over a topology: actions of its sessions, and invariants.

Subclasses may add rules; the rules of this class end transactions and deliver changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import hypothesis
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from hypothesis.strategies import data, sampled_from

from twopc.errors import RejectedError
from twopc.sim.testing.blocking_bench import TestTopology
from twopc.sim.testing.session import TestSession
from twopc.sim.topology.checkpoint import Checkpoint, checkpoint, rewind


def run_machine(
    machine: type[RuleBasedStateMachine], seed: int, settings: Mapping[str, Any]
) -> None:
    """Run a state machine with Hypothesis.

    Args:
        seed: 0: Hypothesis chooses.
        settings: of Hypothesis, in place of our defaults.
    """
    chosen = {
        "deadline": None,
        "max_examples": 20,
        "stateful_step_count": 10,
        "suppress_health_check": [hypothesis.HealthCheck.too_slow],
        **settings,
    }
    seeded = hypothesis.seed(seed)(machine) if seed else machine
    run_state_machine_as_test(seeded, settings=hypothesis.settings(**chosen))


class TopologyMachine(RuleBasedStateMachine):
    """Runs sessions at the nodes of a topology; every example begins with the same rows.

    A test passes the topology to `play`::

        class Bank(TopologyMachine):
            @rule(cents=integers(1, 5))
            def give(self, cents):
                self.attempt("sub1", "update account set cents = cents + %s where id = 1", (cents,))

        def test_bank(twopc):
            Bank.play(twopc)

    After every step, nothing may be in doubt if no transaction is open; at the end, all copies must be equal.
    """

    __test__ = False  # not a test, despite its name

    topology: ClassVar[TestTopology]
    _kept: ClassVar[Checkpoint]

    @classmethod
    def play(cls, topology: TestTopology, **settings: Any) -> None:
        """Run the state machine on a topology with Hypothesis.

        Args:
            settings: of Hypothesis, as ``max_examples=20, stateful_step_count=10``.

        Raises:
            AssertionError: an invariant is violated; Hypothesis shows the shortest failing example.
        """
        cls.topology = topology
        cls._kept = topology.call(checkpoint, topology.bed.topology)
        run_machine(cls, topology.seed, settings)

    def __init__(self) -> None:
        super().__init__()
        self.topology.call(self.topology.bed.close_sessions)
        self.topology.call(rewind, self.topology.bed.topology, self._kept)
        self.topology.bed.begin_order("one of Hypothesis")
        self._sessions: dict[str, TestSession] = {}
        self._open: set[str] = set()

    def session(self, node: str) -> TestSession:
        """Return the session at a node; the same one throughout an example."""
        if node not in self._sessions:
            self._sessions[node] = self.topology.session(node)
        return self._sessions[node]

    def attempt(self, node: str, sql: str, params: Any = None) -> bool:
        """Run a statement; return False if it was refused, with its transaction rolled back.

        The transaction of a session for which the statement waits is committed first.
        """
        session = self.session(node)
        started = session.start(sql, params)
        self._open.add(node)
        for other in self._open - {node}:
            if started.blocked_by(self._sessions[other]):
                self._end(other, commit=True)
        try:
            started.result()
        except RejectedError:
            self._end(node, commit=False)
            return False
        return True

    def _end(self, node: str, *, commit: bool) -> None:
        self._open.discard(node)
        session = self._sessions[node]
        try:
            (session.commit if commit else session.rollback)()
        except RejectedError:
            session.rollback()

    @precondition(lambda self: bool(self._open))
    @rule(choice=data())
    def commit_one(self, choice: Any) -> None:
        """Commit one of the open transactions."""
        self._end(choice.draw(sampled_from(sorted(self._open))), commit=True)

    @precondition(lambda self: bool(self._open))
    @rule(choice=data())
    def roll_back_one(self, choice: Any) -> None:
        """Roll back one of the open transactions."""
        self._end(choice.draw(sampled_from(sorted(self._open))), commit=False)

    @precondition(lambda self: not self._open)
    @rule()
    def deliver(self) -> None:
        """Deliver everything that is committed to every Subscriber."""
        self.topology.sync()

    @invariant()
    def nothing_in_doubt(self) -> None:
        """Check that no branch stays prepared."""
        if not self._open:
            self.topology.assert_nothing_in_doubt()

    def teardown(self) -> None:
        """Roll back open transactions, deliver everything, and check that all copies are equal."""
        for node in sorted(self._open):
            self._end(node, commit=False)
        self.topology.settle()
        self.topology.assert_converged()
        self.topology.assert_atomic()
