"""Changes that each merge session of a case makes to generations, and the lineages of conflicting rows.

Servers and the model share this module: a stage reads the state of a node before and after each session.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from twopc.errors import MergeError
from twopc.merge.decision import CLIENT_PRIORITY, PUBLISHER_PRIORITY, ConflictType
from twopc.merge.lineage import Lineage, covers
from twopc.merge.protections import MergeProtection
from twopc.sim.merge.shape import MergeTree
from twopc.sim.scenario.stage import EndedMergeSession
from twopc.sim.scenario.values import Case

#: Failed changes that a Subscriber records.
_ON_THE_WAY_DOWN = frozenset(
    {
        ConflictType.DOWNLOAD_INSERT_FAILED,
        ConflictType.DOWNLOAD_UPDATE_FAILED,
        ConflictType.DOWNLOAD_DELETE_FAILED,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourMarks:
    """Marks that a node holds for a neighbour."""

    sent: int
    """Last generation of the node that the neighbour is known to have."""
    received: int
    """Last generation received from the neighbour."""
    coming: int | None
    """Generation of the neighbour that has been received in part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKnowledge:
    """Merge metadata of a node."""

    replicas: tuple[int, ...]
    """Replica numbers that the node has had, the present one last."""
    newest: int
    """Newest closed generation of the node."""
    marks: Mapping[str, NeighbourMarks]
    lineages: Mapping[tuple[str, UUID], Lineage]
    """By table and rowguid, including deleted rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenConflict:
    """A conflict, or a change that could not be applied, as recorded at a node."""

    table: str
    rowguid: UUID
    type: ConflictType
    origin: str
    """Node whose change has lost, or failed."""
    winner: str | None
    """Node whose change has won; None if the change failed."""
    reason_code: str
    reason: str
    loser: Mapping[str, str | None] | None
    """The losing row as text; None if it was deleted."""


class MergeSight(Protocol):
    """Source of the data of a `MergeWatch`."""

    async def seen(self, node: str) -> NodeKnowledge:
        """Return the present metadata of a node."""
        ...

    async def conflicts(self, node: str) -> Sequence[SeenConflict]:
        """Return all conflicts recorded at a node, in order."""
        ...


class MergeWatch:
    """Observer of the merge sessions of one case, which run one at a time."""

    def __init__(self, case: Case, sight: MergeSight) -> None:
        self._scenario = case.scenario
        self._off = case.off
        self._tree = MergeTree(case.scenario.topology.tree)
        self._sight = sight
        self._names: dict[int, str] = {}
        self._lives: dict[str, int] = {}
        self._sessions: list[EndedMergeSession] = []
        self._keys: dict[tuple[str, UUID, str], Mapping[str, Any]] = {}
        """Last known primary key of each row, by table, rowguid and node."""
        self._recorded: dict[str, int] = {}
        """Number of conflicts already read, by node."""

    def note_row(self, node: str, table: str, rowguid: UUID, row: Mapping[str, Any]) -> None:
        """Note the primary key of a row at a node, by which its conflicts are described."""
        self._keys[table, rowguid, node] = self._key_in(table, row)

    def _key_in(self, table: str, row: Mapping[str, Any]) -> Mapping[str, Any]:
        return {name: row[name] for name in self._scenario.tables[table].key_columns if name in row}

    def _key(self, node: str, conflict: SeenConflict) -> dict[str, Any]:
        """Return the key that a conflict's row had at the node that has recorded the conflict.

        If the node has not had the row, it is that of the losing row or, if that was deleted, of the row at another
        node. Empty if no node's tables showed the row after any commit.
        """
        table, rowguid = conflict.table, conflict.rowguid
        here, *others = (
            self._keys.get((table, rowguid, name))
            for name in (node, *self._scenario.topology.nodes)
        )
        losing = self._key_in(table, conflict.loser or {})
        return dict(next(filter(None, (here, losing, *others)), {}))

    def taken(self) -> Sequence[EndedMergeSession]:
        """Return the sessions that have ended since the last call."""
        results, self._sessions = self._sessions, []
        return results

    @asynccontextmanager
    async def session(self, subscriber: str) -> AsyncIterator[None]:
        """Observe a session with a Subscriber, which may fail."""
        if not self._names:
            for node in self._scenario.topology.nodes:
                self._note(node, await self._sight.seen(node))
        ends = (self._tree.publisher_of(subscriber), subscriber)
        before = {node: await self._sight.seen(node) for node in ends}
        # without marks the Subscriber is being initialised, which is no session
        if ends[0] not in before[subscriber].marks:
            yield
            return
        try:
            yield
        except MergeError:
            await self._after(subscriber, before)
            raise
        await self._after(subscriber, before)

    async def _after(self, subscriber: str, before: Mapping[str, NodeKnowledge]) -> None:
        above, below = before
        after = {node: await self._sight.seen(node) for node in before}
        for node, seen in after.items():
            self._note(node, seen)
        conflicts = [
            self._explained(subscriber, before, rowguid, each)
            for rowguid, each in await self._new_conflicts(before)
        ]
        self._sessions.append(
            EndedMergeSession(
                subscriber=subscriber,
                publisher=above,
                up=_way(below, above, before, after),
                down=_way(above, below, before, after),
                conflicts=conflicts,
            )
        )

    async def _new_conflicts(self, ends: Iterable[str]) -> Sequence[tuple[UUID, dict[str, Any]]]:
        """Return the conflicts recorded since the last call, each as the row's rowguid and its description.

        Args:
            ends: the session's Publisher and Subscriber. An upload precedes the download, so the Publisher's are first.
        """
        results = []
        for node in dict.fromkeys((*ends, *self._scenario.topology.nodes)):
            every = await self._every_conflict(node)
            new = every[self._recorded.get(node, 0) :]
            self._recorded[node] = len(every)
            results += [(each.rowguid, self._as_read(node, each)) for each in new]
        return results

    async def _every_conflict(self, node: str) -> Sequence[SeenConflict]:
        every = await self._sight.conflicts(node)
        if node in self._scenario.topology.tree:
            return every
        # the Publisher records the other conflicts
        return [each for each in every if each.type in _ON_THE_WAY_DOWN]

    async def restored(self, node: str) -> None:
        """Note that a node was restored, with the conflicts of its backup."""
        self._recorded[node] = len(await self._every_conflict(node))

    def _as_read(self, node: str, conflict: SeenConflict) -> dict[str, Any]:
        table, held = self._scenario.tables[conflict.table], conflict.loser
        loser = (
            None if held is None else {name: held[name] for name in table.columns if name in held}
        )
        return {
            "node": node,
            "table": conflict.table,
            "key": self._key(node, conflict),
            "type": conflict.type.name.lower(),
            "origin": conflict.origin,
            "winner": conflict.winner,
            "resolver": table.merge.resolver,
            "reason_code": conflict.reason_code,
            "reason": conflict.reason,
            "loser": loser,
        }

    def _note(self, node: str, seen: NodeKnowledge) -> None:
        """Assign names to the replica numbers of a node: ``anna``, and ``anna#2`` after it was restored or
        reinitialised.
        """
        for number in seen.replicas:
            if number not in self._names:
                life = self._lives[node] = self._lives.get(node, 0) + 1
                self._names[number] = node if life == 1 else f"{node}#{life}"

    def _written(self, lineage: Lineage) -> dict[str, int]:
        named = {self._names.get(number, str(number)): each for number, each in lineage.items()}
        return dict(sorted(named.items()))

    def _explained(
        self,
        subscriber: str,
        before: Mapping[str, NodeKnowledge],
        rowguid: UUID,
        conflict: dict[str, Any],
    ) -> dict[str, Any]:
        """Return the conflict with the lineages of both rows and the reason why one of them won."""
        if not conflict["winner"]:
            return conflict
        above, below = before
        row = conflict["table"], rowguid
        held, incoming = (before[node].lineages.get(row, {}) for node in (above, below))
        results: dict[str, Any] = {"incoming": subscriber, "why": self._why(subscriber, conflict)}
        meet = not (covers(held, incoming) or covers(incoming, held)) or held == incoming
        if meet and held and incoming:  # otherwise one of them was changed during the session
            results["stands_on"] = {
                "incoming": self._written(incoming), "held": self._written(held)
            }  # fmt: skip
        return conflict | results

    def _why(self, subscriber: str, conflict: Mapping[str, Any]) -> str:
        """Return the reason for the winner; empty if it cannot be derived."""
        if conflict["resolver"] and MergeProtection.RESOLVER not in self._off:
            return f"the resolver {conflict['resolver']} decides"
        winner, origin = conflict["winner"], conflict["origin"]
        if winner == origin or subscriber in self._tree.publishers:
            return ""  # both changes are of one node, or the Subscriber republishes changes with other priorities
        holder = origin if winner == subscriber else winner
        own = self._priority(subscriber)
        own_priority = (
            CLIENT_PRIORITY if own is None or MergeProtection.PRIORITY in self._off else own
        )
        held = self._priority(holder)
        held_priority = PUBLISHER_PRIORITY if held is None else held
        has_won = winner == subscriber
        if has_won != (own_priority > held_priority):
            return ""
        how = "higher than" if has_won else "not higher than"
        whose = holder
        if held is None and holder != conflict["node"]:
            whose = f"what {conflict['node']} has accepted of {holder}"
        return f"priority {own_priority:g} of {subscriber} is {how} {held_priority:g} of {whose}"

    def _priority(self, node: str) -> float | None:
        """Return the priority of a server subscription; None for the Publisher or a client subscription."""
        if node not in self._scenario.topology.subscribers:
            return None
        priority = self._scenario.subscriber(node).merge.priority
        return None if priority is None else float(priority)


def _way(
    sender: str,
    receiver: str,
    before: Mapping[str, NodeKnowledge],
    after: Mapping[str, NodeKnowledge],
) -> Mapping[str, Any]:
    """Return the progress of a sender's generations in a session: each value before it and after it."""
    marks = [
        (seen[sender].marks[receiver], seen[receiver].marks[sender]) for seen in (before, after)
    ]
    arrived = [there.received for _, there in marks]
    if any(before[node].replicas != after[node].replicas for node in before):
        # one of the nodes was restored: earlier generations belong to its previous replica number
        arrived[0] = 0
    return {
        "from": sender,
        "to": receiver,
        "closed": [before[sender].newest, after[sender].newest],
        "arrived": arrived,
        "acknowledged": [here.sent for here, _ in marks],
        "coming": marks[1][1].coming,
    }
