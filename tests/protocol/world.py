"""A coordinator and its participants in memory, with every order of events and every fault.

A `State` is a value, and `tests.protocol.step` makes the next one. The same world can therefore
serve a random walk, an exhaustive search, and a test of single steps. No time passes: a timer that
is set may fire at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tests.protocol.frozen import Frozen, Registry, ViolationError
from tests.protocol.values import Config, Disk, State
from twopc.protocol import events as e
from twopc.protocol import recovery
from twopc.protocol.coordinator import Coordinator
from twopc.protocol.effects import COORDINATOR, Effect, Message, Outcome, Timer
from twopc.protocol.participant import Participant
from twopc.protocol.second_phase import BranchProgress
from twopc.protocol.states import CoordinatorState, ParticipantState

#: The next action: its kind (a method of `tests.protocol.step.Step`) and its arguments.
Action = tuple[Any, ...]

_TELLING = (CoordinatorState.COMMITTING, CoordinatorState.ABORTING, CoordinatorState.ENDED)
_UNASKED = (CoordinatorState.NEW, CoordinatorState.ACTIVE, CoordinatorState.COLLECTING)


def asked(machine: Coordinator) -> Iterator[str]:
    """Yield the participants that were asked, and whose connections may be lost."""
    branches: dict[str, BranchProgress] = machine._branches
    if machine.state not in _UNASKED:
        yield from (
            name for name, branch in branches.items() if branch is not BranchProgress.WORKING
        )


class World:
    """The rules by which one state follows another."""

    def __init__(
        self,
        config: Config,
        *,
        coordinator: type[Coordinator] = Coordinator,
        participant: type[Participant] = Participant,
        answer: Callable[..., Message | None] = recovery.answer,
        observe: Callable[[str, Effect], None] | None = None,
        strict: bool = True,
        wire: bool = True,
    ) -> None:
        self.config = config
        self.coordinator = coordinator
        self.participant = participant
        self.answer = answer
        self.observe = observe
        """Called with every effect that is performed, and its node."""
        self.wire = wire
        """Whether each message and END record is checked, or outcomes only."""
        self.registry = Registry(strict=strict)
        self.nodes = (COORDINATOR, *config.participants)

    def start(self) -> State:
        """Return the state in which the application has completed its work at every branch."""
        settings = self.config.settings
        main, _ = self.registry.freeze(self.coordinator(settings)).receive(
            e.Begin(participants=self.config.participants)
        )
        branches: list[Frozen] = []
        timers: set[tuple[str, str, Timer]] = set()
        for name in self.config.participants:
            branch, _ = self.registry.freeze(self.participant(settings)).receive(e.WorkBegun())
            if name in self.config.writers:
                branch, _ = branch.receive(e.Wrote())
            branches.append(branch)
            timers.add((name, "", Timer.IDLE))
        return State(
            up=True,
            machines=(("", main),),
            branches=tuple(branches),
            disks=(Disk(),) * len(self.nodes),
            net=frozenset(),
            timers=frozenset(timers),
            reading=False,
            answer=None,
            seen=(None,) * len(branches),
            damage=False,
            faults=self.config.faults,
        )

    # -- actions -----------------------------------------------------------------------------------

    def expected(self, state: State) -> Iterator[Action]:
        """Yield the actions that occur without faults, except timers."""
        if not state.up:
            yield ("recover", COORDINATOR)
        for name, branch in zip(self.config.participants, state.branches, strict=True):
            if branch is None:
                yield ("recover", name)
        for node, disk in zip(self.nodes, state.disks, strict=True):
            if disk.pending:
                yield ("flush", node)
        if state.reading:
            yield ("read_back",)
        for packet in state.net:
            if self.is_up(state, packet.to):
                yield ("deliver", packet)

    def overdue(self, state: State) -> Iterator[Action]:
        """Yield the timers that may fire."""
        if state.faults.hasty or self.is_quiet(state):
            for node, key, name in state.timers:
                yield ("timer", node, key, name)

    def is_quiet(self, state: State) -> bool:
        """Return whether nothing is due except timers and the recovery of nodes."""
        main = self.main(state)
        if main is not None and main.state is CoordinatorState.ACTIVE:
            return False  # the application is about to request the commit
        return all(action[0] == "recover" for action in self.expected(state))

    def decisions(self, state: State) -> Iterator[Action]:
        """Yield the actions of the application and of the driver."""
        main = self.main(state)
        if main is None:
            return
        if main.state is CoordinatorState.ACTIVE:
            yield ("ask",)
        if main.state is CoordinatorState.ENDED and len(state.machines) == 1:
            yield ("forget",)

    def mishaps(self, state: State) -> Iterator[Action]:
        """Yield the faults that may occur, except crashes."""
        faults = state.faults
        if faults.losses or faults.duplicates:
            for packet in state.net:
                if faults.losses:
                    yield ("lose", packet)
                if faults.duplicates and self.is_up(state, packet.to):
                    yield ("duplicate", packet)
        main = self.main(state)
        if faults.give_ups and main is not None:
            yield ("give_up",)
        if faults.unknown and main is not None:
            for name in asked(main):
                yield ("unknown", name)
            if main.state in _TELLING:
                for name in main.unsettled or self.config.participants[:1]:
                    yield ("ack_lost", name)
        if faults.stale:
            yield from self._stale(state, main)
        if faults.log_faults:
            for node, disk in zip(self.nodes, state.disks, strict=True):
                if disk.pending:
                    yield ("log_failed", node)
            if state.disks[0].pending:
                yield ("log_unknown", False)
                yield ("log_unknown", True)
        for name in self.config.participants:
            where = self.where(state, name)
            if faults.work_failures and where is ParticipantState.WORKING:
                yield ("fail", name)
            if faults.by_hand and where is ParticipantState.PREPARED:
                yield ("by_hand", name, Outcome.COMMITTED)
                yield ("by_hand", name, Outcome.ABORTED)

    def _stale(self, state: State, main: Coordinator | None) -> Iterator[Action]:
        armed = state.timers
        if main is not None and main.state not in _UNASKED:
            for name in (Timer.VOTE, Timer.RESEND):
                if (COORDINATOR, "", name) not in armed:
                    yield ("stale", COORDINATOR, name)
        for node in self.config.participants:
            if self.where(state, node) not in (None, ParticipantState.NEW):
                for name in (Timer.IDLE, Timer.INQUIRY):
                    if (node, "", name) not in armed:
                        yield ("stale", node, name)

    def crashes(self, state: State) -> Iterator[Action]:
        """Yield crashes between two steps, with each number of unforced records that survive."""
        if state.faults.crashes:
            for node, disk in zip(self.nodes, state.disks, strict=True):
                if self.is_up(state, node):
                    for kept in range(disk.durable, len(disk.records) + 1):
                        yield ("crash", node, kept)

    def is_up(self, state: State, node: str) -> bool:
        """Return whether a node is up."""
        if node == COORDINATOR:
            return state.up
        return state.branches[self.config.participants.index(node)] is not None

    def where(self, state: State, name: str) -> ParticipantState | None:
        """Return the state of a branch; None while its node is down."""
        branch = state.branches[self.config.participants.index(name)]
        return None if branch is None else branch.machine.state  # type: ignore[return-value]

    def main(self, state: State) -> Coordinator | None:
        """Return the transaction's coordinator, or None if it has no machine."""
        machine = dict(state.machines).get("")
        return None if machine is None else machine.machine  # type: ignore[return-value]

    # -- settled states ----------------------------------------------------------------------------

    def is_settled(self, state: State) -> bool:
        """Return whether no node has anything left to do."""
        ended = (ParticipantState.ENDED, ParticipantState.NEW)
        return (
            state.up
            and not state.net
            and not state.reading
            and not any(disk.pending for disk in state.disks)
            and all(b is not None and b.machine.state in ended for b in state.branches)
            and all(m.machine.state is CoordinatorState.ENDED for _, m in state.machines)
        )

    def check_settled(self, state: State) -> None:
        """Check the invariants of a settled state."""
        outcomes = self.outcomes(state)
        if self.config.faults.by_hand:
            told = self.config.settings.variant.answers_always
            if len(outcomes) > 1 and told and not state.damage:
                raise ViolationError(f"damage unreported: {state}")
            return
        if len(outcomes) > 1:
            raise ViolationError(f"split: {outcomes}")
        if state.answer is Outcome.COMMITTED and outcomes - {Outcome.COMMITTED}:
            raise ViolationError(f"answered committed: {outcomes}")

    def outcomes(self, state: State) -> set[Outcome | None]:
        """Return the outcomes of the branches that wrote."""
        found: set[Outcome | None] = set()
        for name, branch in zip(self.config.participants, state.branches, strict=True):
            if name in self.config.writers and branch is not None:
                lost = branch.machine.state is ParticipantState.NEW
                participant: Participant = branch.machine  # type: ignore[assignment]
                found.add(Outcome.ABORTED if lost else participant.outcome)
        return found
