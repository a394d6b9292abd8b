"""Recovery settles branches that no transaction of a live coordinator will settle, from the decision log and the
markers.

A pass fences the epochs of dead processes and ends their sessions. Then it reads, per database, the prepared
branches, the active transactions of this process, the decisions, and the prepared branches again. Only branches
that were prepared both times are touched, each independently. A pass may be killed at any time and may run twice
concurrently; the next pass finds the same state.

Branches of other coordinators, and foreign or unparsable gids, are never touched. This module must not depend on
the implementation of nodes and log, which may be servers or the model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Self

import psycopg

from twopc.drivers.comparison import Comparison
from twopc.drivers.peers import ask, unreachable
from twopc.drivers.points import Points
from twopc.drivers.ports import DecisionsPort, Key, ParticipantPort
from twopc.log import get_logger
from twopc.names import PREFIX, BranchId, branch_gid, node_of, session_name
from twopc.protocol import VARIANTS, Coordinator, CoordinatorState, Settings, Variant
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.effects import Message, Outcome, Record
from twopc.protocol.recovery import Action, BranchFacts, BranchVerdict, decide, rebuild_coordinator

_log = get_logger(__name__)

_BATCH_ROWS = 10000


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledBranch:
    """A branch that recovery has settled."""

    gid: str
    node: str
    outcome: Outcome
    reason: str


@dataclass(slots=True, kw_only=True)
class _RecoveryPass:
    """State and results of one pass."""

    variants: dict[int, Variant] = field(default_factory=dict)
    """Variant of every epoch in the log."""
    dead: dict[int, float] = field(default_factory=dict)
    """Fenced epochs, each with the seconds since it was fenced."""
    prepared: dict[str, tuple[str, BranchId]] = field(default_factory=dict)
    """Node and id of the coordinator's prepared branches that this pass may settle."""
    reached: set[str] = field(default_factory=set)
    """Nodes that answered."""
    decisions: dict[Key, Record] = field(default_factory=dict)
    settled: list[SettledBranch] = field(default_factory=list)
    strange: dict[str, str] = field(default_factory=dict)
    """Owners of branches that have our gids but were prepared by a role that is not ours."""

    def open(self) -> set[Key]:
        """Return the transactions with a decision, or with a prepared branch, that this pass has found."""
        return {*self.decisions, *(_key(branch) for _, branch in self.prepared.values())}

    def is_whole(self, nodes: Iterable[str]) -> bool:
        """Return whether all nodes have answered, and all decisions were read."""
        return self.reached >= {*nodes} and len(self.decisions) < _BATCH_ROWS


class Recovery:
    """Recovers one coordinator's transactions.

    Args:
        coordinator: name of the coordinator.
        publisher: name of the Publisher.
        participants: all participants, with connections used by recovery only.
        decisions: the decision log, with a connection used by recovery only.
        points: protocol points.
        retention_s: time for which the epoch of a dead process is kept after it was fenced.
    """

    machine: ClassVar[type[Coordinator]] = Coordinator
    """Class of the machines that are rebuilt."""
    observe: Callable[[SettledBranch], None] | None = None
    """Called with every branch when it is settled."""

    def __init__(
        self,
        coordinator: str,
        *,
        publisher: str,
        participants: Mapping[str, ParticipantPort],
        decisions: DecisionsPort,
        points: Points,
        retention_s: float = 600.0,
    ) -> None:
        self._coordinator = coordinator
        self._publisher = publisher
        self._participants = participants
        self._decisions = decisions
        self._points = points
        self._retention_s = retention_s
        self._lock = asyncio.Lock()
        self._comparison = Comparison(participants, publisher)
        self._compared: set[int] = set()
        """Dead epochs for which all branches committed at one side alone are recorded."""

    async def run(
        self,
        *,
        own: Iterable[int] = (),
        unsettled: set[Key] | None = None,
        active: Callable[[], set[Key]] = set,
    ) -> list[SettledBranch]:
        """Run one pass, and return the branches that it has settled.

        Args:
            own: epochs of this process, which is alive.
            unsettled: transactions in these epochs whose drivers gave up; settled ones are removed from the set.
            active: returns the transactions in these epochs that drivers are working on.

        Raises:
            psycopg.Error: the distribution database cannot be reached; nothing was decided.
        """
        async with self._lock:
            own_epochs = set(own)
            seen = _RecoveryPass()
            await self._reach("recovery.begin")
            await self._fence(seen, own_epochs)
            result = await self._prepared(self._participants.values(), seen)
            busy = active()
            left = unsettled if unsettled is not None else set()
            for gid, (node, branch) in result.items():
                key = _key(branch)
                if key not in busy and (
                    branch.global_id.epoch in own_epochs or key[0] in seen.dead
                ):
                    seen.prepared[gid] = (node, branch)
            keys = {_key(b) for _, b in seen.prepared.values()}
            seen.decisions = await self._decisions.decisions(
                sorted(seen.dead), sorted(keys | (left - busy))
            )
            await self._confirm_prepared(seen, active() | busy)
            for key in [*seen.decisions]:
                await self._resume(seen, key, left)
            for gid, (node, branch) in seen.prepared.items():
                if _key(branch) not in seen.decisions:
                    await self._settle_undecided(seen, gid, node, branch)
            await self._compare(seen)
            self._drop_settled(seen, left, busy)
            await self._reach("recovery.before_forget")
            await self._forget_epochs(seen)
            await self._reach("recovery.end")
            return seen.settled

    async def release(self, subscriber: str, publisher_of: Mapping[str, str]) -> None:
        """Let the Publisher's markers of a Subscriber's branches be removed: if the Subscriber's commit is the
        decision. Before, record the branches that ended otherwise at the Publisher. Raise psycopg.Error.

        Args:
            subscriber: its name.
            publisher_of: the Subscriber's branches, each with the Publisher's; none is prepared.
        """
        for gid in await self._comparison.subscriber_alone(subscriber, publisher_of):
            await self.record_damage(
                publisher_of[gid], outcome=Outcome.ABORTED, decided=Outcome.COMMITTED
            )
        await self._participants[subscriber].release([*publisher_of])

    async def record_damage(self, gid: str, *, outcome: Outcome, decided: Outcome) -> None:
        """Record that a branch ended against the decision. Raise psycopg.Error."""
        node = node_of(gid.rpartition(":")[2])
        await self._decisions.damage(gid=gid, node=node, outcome=outcome, decided=decided)

    @property
    def is_busy(self) -> bool:
        """Whether a pass is in progress, for which another one would wait."""
        return self._lock.locked()

    async def close(self) -> None:
        """Close the connections of recovery; idempotent."""
        for participant in self._participants.values():
            await participant.close()
        await self._decisions.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _reach(self, point: str) -> None:
        if self._points.armed:
            await self._points.reach(point)

    # -- reading -----------------------------------------------------------------------------------

    async def _fence(self, seen: _RecoveryPass, own: set[int]) -> None:
        """Fence the epochs of dead processes, and end their remaining sessions."""
        dead = await self._decisions.fence(self._coordinator, sorted(own))
        seen.dead = {known.epoch: known.fenced_s or 0.0 for known in dead}
        every = await self._decisions.epochs(self._coordinator)
        seen.variants = {known.epoch: VARIANTS[known.variant] for known in every}
        if seen.dead:
            names = [session_name(self._coordinator, epoch) for epoch in seen.dead]
            publisher = self._participants[self._publisher]
            for name, participant in self._participants.items():
                if name != self._publisher:
                    try:
                        pids = await participant.end_sessions(names)
                        if pids:
                            await publisher.end_links(name, pids)
                    except psycopg.Error as error:
                        unreachable(name, error)
        await self._reach("recovery.epoch_fenced")

    async def _prepared(
        self, participants: Iterable[ParticipantPort], seen: _RecoveryPass
    ) -> dict[str, tuple[str, BranchId]]:
        prefix = f"{PREFIX}:{self._coordinator}:"
        results: dict[str, tuple[str, BranchId]] = {}
        for participant in participants:
            try:
                branches = await participant.prepared(prefix)
            except psycopg.Error as error:
                unreachable(participant.name, error)
                continue
            seen.reached.add(participant.name)
            for gid in branches:
                branch = BranchId.parse(gid)
                if branch is not None and branch.node == participant.name:
                    results[gid] = (participant.name, branch)
                    if not branches[gid].is_ours:
                        seen.strange[gid] = branches[gid].owner
        return results

    async def _confirm_prepared(self, seen: _RecoveryPass, busy: set[Key]) -> None:
        """Keep only branches that are still prepared and that no driver is working on."""
        nodes = {node for node, _ in seen.prepared.values()}
        still = await self._prepared([self._participants[node] for node in sorted(nodes)], seen)
        seen.prepared = {
            gid: (node, branch)
            for gid, (node, branch) in seen.prepared.items()
            if gid in still and _key(branch) not in busy
        }
        seen.decisions = {key: d for key, d in seen.decisions.items() if key not in busy}

    # -- settling ----------------------------------------------------------------------------------

    async def _resume(self, seen: _RecoveryPass, key: Key, left: set[Key]) -> None:
        """Resume a transaction that has a record in the log, as its machine would have continued."""
        record = seen.decisions[key]
        variant = seen.variants[key[0]].on_postgres()
        settings = Settings(variant=variant, answer_early=True)
        machine = self.machine(settings)
        effects = rebuild_coordinator(machine, settings, (record,), 0.0)
        if effects is None:
            # presumed commit: branches on PostgreSQL do not inquire, so the commit is sent
            effects = machine.resume(Outcome.COMMITTED, record.participants, 0.0)
        queue, damaged = [*effects], False
        while queue:
            effect = queue.pop(0)
            if isinstance(effect, x.Send):
                event = await self._tell(seen, key, effect, f"the decision log says {record.kind}")
                queue.extend(machine.receive(event, 0.0))
            elif isinstance(effect, x.Damage):
                damaged = True
                await self._decisions.damage(
                    gid=self._gid(key, effect.participant),
                    node=node_of(effect.participant),
                    outcome=effect.actual,
                    decided=effect.decided,
                )
        if machine.state is CoordinatorState.ENDED:
            if damaged:
                await self._decisions.close_decision(key)
            else:
                await self._decisions.forget(key)
            left.discard(key)

    async def _tell(self, seen: _RecoveryPass, key: Key, effect: x.Send, reason: str) -> e.Event:
        name, gid = effect.to, self._gid(key, effect.to)
        outcome = Outcome.COMMITTED if effect.message is Message.COMMIT else Outcome.ABORTED
        result = await self._finish(seen, gid, node_of(name), outcome, reason)
        if result is None:
            return e.AckLost(participant=name)
        if result is Outcome.COMMITTED:
            return e.BranchCommitted(participant=name)
        return e.BranchAborted(participant=name)

    async def _finish(
        self, seen: _RecoveryPass, gid: str, node: str, outcome: Outcome, reason: str
    ) -> Outcome | None:
        """Settle one branch; return None if it must wait."""
        participant = self._participants.get(node)
        if participant is None:
            _log.warning("recovery does not know a participant", gid=gid, node=node)
            return None
        was_prepared = gid in seen.prepared
        await self._reach(f"recovery.before_finish({node})")
        try:
            result = await participant.settle(gid, outcome, [])
        except psycopg.Error as error:
            _log.warning("branch not settled yet", gid=gid, node=node, reason=str(error))
            return None
        if was_prepared:
            settled = SettledBranch(gid=gid, node=node, outcome=result, reason=reason)
            seen.settled.append(settled)
            if self.observe is not None:
                self.observe(settled)
            _log.info("branch settled", gid=gid, node=node, outcome=str(result), reason=reason)
        await self._reach(f"recovery.after_finish({node})")
        return result

    async def _settle_undecided(
        self, seen: _RecoveryPass, gid: str, node: str, branch: BranchId
    ) -> None:
        """Settle a branch without a record in the log: by presumption, the last agent, or a peer that knows the
        outcome.
        """
        variant = seen.variants.get(branch.global_id.epoch)
        if variant is None:
            return  # the log has no such epoch: `in_doubt` shows the branch, and an operator decides
        if (owner := seen.strange.get(gid)) is not None:
            _log.warning("prepared by a role that is none of ours", gid=gid, owner=owner)
            return  # asking the peers would fence their branches, which may be prepared later
        asked = await ask(self._participants, self._publisher, branch, fence=variant.last_agent)
        peers, missing = asked.ended, asked.missing
        if variant.last_agent:
            committed = [name for name, outcome in peers.items() if outcome is Outcome.COMMITTED]
            if missing and not committed:
                _log.warning("waiting for the last agent", gid=gid, nodes=sorted(missing))
                return
            agent = committed[0] if committed else next(iter(peers), "")
            facts = BranchFacts(is_own=True, alive=False, records=(), peers=peers, agent=agent)
        else:
            facts = BranchFacts(is_own=True, alive=False, records=())
        verdict = self._judge(facts, variant)
        action, reason = verdict.action, verdict.reason
        if action is Action.ABORT and Outcome.COMMITTED in peers.values():
            # The peer was committed manually, or its server was restored: the nodes must not differ.
            action, reason = Action.COMMIT, "another branch is committed; the log says nothing"
            for name, outcome in peers.items():
                if outcome is Outcome.COMMITTED:
                    await self._decisions.damage(
                        gid=branch_gid(str(branch.global_id), name), node=node_of(name),
                        outcome=outcome, decided=None,
                    )  # fmt: skip
        if action in (Action.COMMIT, Action.ABORT):
            outcome = Outcome.COMMITTED if action is Action.COMMIT else Outcome.ABORTED
            await self._finish(seen, gid, node, outcome, reason)

    def _judge(self, facts: BranchFacts, variant: Variant) -> BranchVerdict:
        return decide(facts, variant)

    def _gid(self, key: Key, name: str) -> str:
        return f"{PREFIX}:{self._coordinator}:{key[0]}:{key[1]}:{name}"

    def _gid_prefix(self, epoch: int) -> str:
        return f"{PREFIX}:{self._coordinator}:{epoch}:"

    # -- comparing ---------------------------------------------------------------------------------

    async def _compare(self, seen: _RecoveryPass) -> None:
        """Find branches of dead processes' epochs that are committed at the Publisher alone or at a Subscriber alone,
        and record them.

        One of the branches was finished manually, or a node was restored: no branch is prepared any more, and no
        inquiry would reveal the difference.
        """
        if not seen.is_whole(self._participants):
            return
        epochs_open = {key[0] for key in seen.open()}
        for epoch in sorted(seen.dead.keys() - self._compared):
            try:
                known = seen.open() | await self._decisions.closed(epoch)
                agent_decides = epoch in seen.variants and seen.variants[epoch].last_agent
                async for gid, outcome in self._comparison.splits(
                    self._gid_prefix(epoch), known, agent_decides=agent_decides
                ):
                    decided = Outcome.ABORTED if outcome is Outcome.COMMITTED else Outcome.COMMITTED
                    await self.record_damage(gid, outcome=outcome, decided=decided)
            except psycopg.Error as error:
                reason = " ".join(str(error).split())
                _log.warning("branches are compared later", epoch=epoch, reason=reason)
                return
            if epoch not in epochs_open:
                self._compared.add(epoch)

    # -- forgetting --------------------------------------------------------------------------------

    def _drop_settled(self, seen: _RecoveryPass, left: set[Key], busy: set[Key]) -> None:
        """Remove settled transactions from `left`: all nodes answered, none has a prepared branch, and no decision
        is open.
        """
        if seen.reached >= set(self._participants):
            open_ = {_key(branch) for _, branch in seen.prepared.values()}
            left -= {key for key in left if key not in seen.decisions and key not in open_} - busy

    async def _forget_epochs(self, seen: _RecoveryPass) -> None:
        """Remove a dead epoch once no branch or decision of it is left, and its branches have been compared."""
        if not seen.is_whole(self._participants):
            return
        for epoch, fenced_s in seen.dead.items():
            if epoch not in self._compared or fenced_s < self._retention_s:
                continue
            prefix = self._gid_prefix(epoch)
            try:
                # The Publisher is the first, after the Subscribers have released: see `MarkerRetention`.
                await self._comparison.release(prefix)
                for participant in sorted(
                    self._participants.values(), key=lambda one: one.name != self._publisher
                ):
                    while await participant.forget_epoch(prefix, _BATCH_ROWS) == _BATCH_ROWS:
                        pass
            except psycopg.Error as error:
                unreachable("", error)
                return
            await self._decisions.forget_epoch(epoch)


def _key(branch: BranchId) -> Key:
    return branch.global_id.epoch, branch.global_id.sequence
