"""One step in a world: an action is taken, its effects are performed, invariants are checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.protocol.frozen import Frozen, ViolationError
from tests.protocol.packets import to_coordinator, to_participant
from tests.protocol.values import ANY, Disk, Packet, State
from tests.protocol.world import Action, World
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol import recovery
from twopc.protocol.effects import (
    COORDINATOR,
    NOTHING,
    Effect,
    Message,
    Outcome,
    Record,
    RecordKind,
)
from twopc.protocol.participant import Participant
from twopc.protocol.states import CoordinatorState, ParticipantState

_DECISION = {RecordKind.COMMIT, RecordKind.COMMITTED}

#: Number of effects before a crash, and whether the disk keeps records that were not forced.
Cut = tuple[int, bool]


def rebuild_participant(
    machine: Participant, records: Sequence[Record], now: float
) -> tuple[Effect, ...]:
    """Bring a new machine to the state that the log records for the branch.

    A crash loses unprepared work: without records the machine stays ``NEW``, and votes no.
    """
    if not records:
        return NOTHING
    outcomes = {RecordKind.COMMITTED: Outcome.COMMITTED, RecordKind.ABORTED: Outcome.ABORTED}
    return machine.resume(outcomes.get(records[-1].kind), now)


def step(world: World, state: State, action: Action, cut: Cut | None = None) -> State:
    """Return the state after `action`.

    Args:
        world: the rules.
        state: the state before.
        action: an action that the world offers in that state.
        cut: where the node crashes among the action's effects; None: it does not crash.

    Raises:
        ViolationError: the new state violates an invariant.
    """
    return Step(world, state, cut).take(action)


class Step:
    """A state while it is changed."""

    def __init__(self, world: World, state: State, cut: Cut | None) -> None:
        self.world = world
        self.before = state
        self.cut = cut
        self.performed = 0
        """Number of the action's effects."""
        self.names = world.config.participants
        self.settings = world.config.settings
        self.up = state.up
        self.machines = dict(state.machines)
        self.branches = list(state.branches)
        self.disks = list(state.disks)
        self.net = state.net
        self.timers = state.timers
        self.reading = state.reading
        self.answer = state.answer
        self.damage = state.damage
        self.faults = state.faults

    def take(self, action: Action) -> State:
        """Take the action, and return the state after it."""
        getattr(self, f"_{action[0]}")(*action[1:])
        state = State(
            up=self.up,
            machines=tuple(sorted(self.machines.items(), key=_first)),
            branches=tuple(self.branches),
            disks=tuple(self.disks),
            net=self.net,
            timers=self.timers,
            reading=self.reading,
            answer=self.answer,
            seen=self._see(),
            damage=self.damage,
            faults=self.faults,
        )
        if not self.world.config.faults.by_hand:
            _check(state)
        return state

    # -- actions -----------------------------------------------------------------------------------

    def _ask(self) -> None:
        self._main(e.CommitAsked())

    def _give_up(self) -> None:
        self._spend("give_ups")
        self._main(e.AbortAsked(reason="the application gave up"))

    def _forget(self) -> None:
        """Drop an ended machine, as the driver does, and its log record if END allows it."""
        machine: Any = self.machines.pop("").machine
        if any(node == COORDINATOR for node, *_ in self.timers):
            raise ViolationError(f"ended, and left a timer: {self.timers}")
        disk = self.disks[0]
        ended = bool(disk.records) and disk.records[-1].kind is RecordKind.END
        variant = self.settings.variant
        acked = (
            variant.commit_acked if machine.outcome is Outcome.COMMITTED else variant.abort_acked
        )
        if ended or not acked:
            self.disks[0] = Disk()

    def _deliver(self, packet: Packet) -> None:
        self.net -= {packet}
        self._arrive(packet)

    def _duplicate(self, packet: Packet) -> None:
        self._spend("duplicates")
        self._arrive(packet)

    def _lose(self, packet: Packet) -> None:
        self._spend("losses")
        self.net -= {packet}

    def _unknown(self, name: str) -> None:
        self._spend("unknown")
        self._main(e.VoteUnknown(participant=name, reason="connection lost"))

    def _ack_lost(self, name: str) -> None:
        self._spend("unknown")
        self._main(e.AckLost(participant=name))

    def _fail(self, name: str) -> None:
        self._spend("work_failures")
        self._branch(name, e.WorkFailed(reason="failed"))

    def _by_hand(self, name: str, outcome: Outcome) -> None:
        self._spend("by_hand")
        self._branch(name, e.ResolvedByHand(outcome=outcome))

    def _timer(self, node: str, key: str, name: x.Timer) -> None:
        if not self.world.is_quiet(self.before):
            self._spend("hasty")
        self.timers -= {(node, key, name)}
        event = e.TimerFired(name=name)
        if node == COORDINATOR:
            self._machine(key, event)
        else:
            self._branch(node, event)

    def _stale(self, node: str, name: x.Timer) -> None:
        self._spend("stale")
        self._tell(node, e.TimerFired(name=name))

    def _flush(self, node: str) -> None:
        index, disk = self._disk(node)
        self.disks[index] = Disk(disk.records, len(disk.records), pending=False)
        self._tell(node, e.Logged(record=disk.records[-1]))

    def _log_failed(self, node: str) -> None:
        self._spend("log_faults")
        record = self._drop(node)
        self._tell(node, e.LogFailed(record=record, reason="log failed"))

    def _log_unknown(self, written: bool) -> None:
        self._spend("log_faults")
        disk = self.disks[0]
        record = disk.records[-1]
        if written:
            self.disks[0] = Disk(disk.records, len(disk.records), pending=False)
        else:
            self._drop(COORDINATOR)
        self._main(e.LogUnknown(record=record))

    def _read_back(self) -> None:
        self.reading = False
        record = self._pending_record()
        found = record in self.disks[0].safe
        self._main(e.LogFound(record=record) if found else e.LogMissing(record=record))

    def _recover(self, node: str) -> None:
        if node == COORDINATOR:
            self.up = True
            machine = self.world.coordinator(self.settings)
            records = self.disks[0].records
            effects = recovery.rebuild_coordinator(machine, self.settings, records, 0.0)
            if effects is not None:
                self.machines[""] = self.world.registry.freeze(machine)
                self._perform(node, "", effects)
        else:
            index, disk = self._disk(node)
            branch = self.world.participant(self.settings)
            effects = rebuild_participant(branch, disk.records, 0.0)
            self.branches[index - 1] = self.world.registry.freeze(branch)
            self._perform(node, "", effects)

    def _crash(self, node: str, kept: int) -> None:
        self._spend("crashes")
        index, disk = self._disk(node)
        records = disk.records[:kept]
        if records and records[-1].kind is RecordKind.END:
            records = ()
        self.disks[index] = Disk(records, len(records))
        self.timers = frozenset(timer for timer in self.timers if timer[0] != node)
        if node == COORDINATOR:
            self.up = False
            self.machines = {}
            self.reading = False
        else:
            self.branches[index - 1] = None

    # -- machines ----------------------------------------------------------------------------------

    def _arrive(self, packet: Packet) -> None:
        if packet.to != COORDINATOR:
            self._branch(packet.to, to_participant(packet))
            return
        event = to_coordinator(packet)
        if "" in self.machines:
            self._machine("", event)
        elif packet.message is Message.INQUIRE:
            self._inquired(packet.source, event)
        else:
            for key, frozen in list(self.machines.items()):
                if not self.up:  # a machine was cut
                    break
                resolving = frozen.machine.state is CoordinatorState.RESOLVING
                if key == packet.source or (packet.source == self.names[-1] and resolving):
                    self._machine(key, event)

    def _inquired(self, name: str, event: e.Event) -> None:
        if name in self.machines:
            self._machine(name, event)
            return
        message = self.world.answer(self.settings.variant, self.disks[0].records)
        if message is not None:
            self._perform(COORDINATOR, "", (x.send(name, message),))
            return
        machine = self.world.coordinator(self.settings)
        effects = recovery.resolve(machine, name, self.names[-1], 0.0)
        self.machines[name] = self.world.registry.freeze(machine)
        self._perform(COORDINATOR, name, effects)

    def _main(self, event: e.Event) -> None:
        self._machine("", event)

    def _machine(self, key: str, event: e.Event) -> None:
        self.machines[key], effects = self.machines[key].receive(event)
        self._perform(COORDINATOR, key, effects)

    def _branch(self, name: str, event: e.Event) -> None:
        index = self.names.index(name)
        branch = self.branches[index]
        assert branch is not None
        self.branches[index], effects = branch.receive(event)
        self._perform(name, "", effects)

    def _tell(self, node: str, event: e.Event) -> None:
        if node == COORDINATOR:
            self._main(event)
        else:
            self._branch(node, event)

    # -- effects -----------------------------------------------------------------------------------

    def _perform(self, node: str, key: str, effects: tuple[Effect, ...]) -> None:
        self.performed = len(effects)
        if self.cut is not None:
            effects = effects[: self.cut[0]]
        for effect in effects:
            if self.world.observe is not None:
                self.world.observe(node, effect)
            match effect:
                case x.Send(to=to, message=message, participants=participants, reason=reason):
                    if self.world.wire:
                        self._check_send(node, key, message)
                    self.net |= {Packet(node, to, message, participants, reason)}
                case x.Log(record=record, forced=forced):
                    index, disk = self._disk(node)
                    if self.world.wire:
                        self._check_end(record)
                    self.disks[index] = Disk((*disk.records, record), disk.durable, forced)
                case x.SetTimer(name=name):
                    self.timers |= {(node, key, name)}
                case x.CancelTimer(name=name):
                    self.timers -= {(node, key, name)}
                case x.ReadBack():
                    self.reading = True
                case x.Damage():
                    if not self.world.config.faults.by_hand:
                        raise ViolationError(f"damage, and nobody did it: {effect}")
                    self.damage = True
                case x.Finish(outcome=outcome):
                    if self.answer is not None:
                        raise ViolationError(f"answered twice: {self.answer}, {outcome}")
                    self.answer = outcome
        if self.cut is not None:
            kept, self.cut = self.cut[1], None
            disk = self._disk(node)[1]
            self._crash(node, len(disk.records) if kept else disk.durable)

    # -- invariants of single effects --------------------------------------------------------------

    def _check_send(self, node: str, key: str, message: Message) -> None:
        """Check that everything that a message states is durable already."""
        _, disk = self._disk(node)
        kinds = [record.kind for record in disk.safe]
        if message is Message.VOTE_YES and kinds[:1] != [RecordKind.PREPARED]:
            raise ViolationError(f"voted yes unprepared: {node}")
        wrote = node in self.world.config.writers
        if message is Message.COMMITTED and wrote and RecordKind.COMMITTED not in kinds:
            raise ViolationError(f"acknowledged before committed: {node}")
        if message is Message.COMMIT and key in self.machines:
            if self.settings.variant.last_agent:
                _, disk = self._disk(self.names[-1])
            if not {record.kind for record in disk.safe} & _DECISION:
                raise ViolationError("told to commit before the decision was durable")

    def _check_end(self, record: x.Record) -> None:
        """Check that a decision is forgotten only when every participant's branch is durable."""
        log = self.disks[0].records
        if record.kind is RecordKind.END and log and log[-1].kind is RecordKind.COMMIT:
            for name in log[-1].participants:
                if RecordKind.COMMITTED not in {r.kind for r in self._disk(name)[1].safe}:
                    raise ViolationError(f"forgotten before {name} was committed")

    # -- helpers -----------------------------------------------------------------------------------

    def _disk(self, node: str) -> tuple[int, Disk]:
        index = self.world.nodes.index(node)
        return index, self.disks[index]

    def _drop(self, node: str) -> x.Record:
        """Drop the record that is being forced; it definitely does not reach the disk."""
        index, disk = self._disk(node)
        *rest, record = disk.records
        self.disks[index] = Disk(tuple(rest), min(disk.durable, len(rest)), pending=False)
        return record

    def _pending_record(self) -> x.Record:
        machine: Any = self.machines[""].machine
        record: x.Record = machine._record
        return record

    def _spend(self, fault: str) -> None:
        left = getattr(self.faults, fault)
        if left != ANY:
            self.faults = self.faults._replace(**{fault: left - 1})

    def _see(self) -> tuple[Outcome | None, ...]:
        if self.branches == list(self.before.branches):
            return self.before.seen
        seen = list(self.before.seen)
        for index, branch in enumerate(self.branches):
            if branch is None or self.names[index] not in self.world.config.writers:
                continue
            machine: Any = branch.machine
            if machine.state is ParticipantState.ENDED and machine.outcome is not seen[index]:
                if seen[index] is not None and not self.world.config.faults.by_hand:
                    raise ViolationError(f"flipped: {self.names[index]} was {seen[index]}")
                seen[index] = machine.outcome
        return tuple(seen)


def _first(item: tuple[str, Frozen]) -> str:
    return item[0]


def _check(state: State) -> None:
    committed = Outcome.COMMITTED in state.seen
    aborted = Outcome.ABORTED in state.seen
    if committed and aborted:
        raise ViolationError(f"split: {state}")
    if committed and state.answer is Outcome.ABORTED:
        raise ViolationError(f"answered aborted, is committed: {state}")
    if aborted and state.answer is Outcome.COMMITTED:
        raise ViolationError(f"answered committed, is aborted: {state}")
