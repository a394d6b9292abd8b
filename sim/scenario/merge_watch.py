"""What each merge session of a case does to generations, and what the rows of its conflicts stand on.

The same for servers and for the model: a stage says what a node knows, and a session is looked at before and after it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from twopc.errors import MergeError
from twopc.merge.decision import CLIENT_PRIORITY, PUBLISHER_PRIORITY
from twopc.merge.lineage import Lineage, covers
from twopc.merge.protections import MergeProtection
from twopc.sim.merge.shape import MergeTree
from twopc.sim.scenario.stage import EndedMergeSession
from twopc.sim.scenario.values import Case


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourMarks:
    """How far a node is with a neighbour."""

    sent: int
    """Its own generation that the neighbour has, as far as it knows."""
    received: int
    """The neighbour's that it has."""
    coming: int | None
    """The neighbour's of which it has a part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKnowledge:
    """What a node knows."""

    replicas: tuple[int, ...]
    """Those that it has been, and at last that which it is."""
    newest: int
    """Its newest closed generation."""
    marks: Mapping[str, NeighbourMarks]
    lineages: Mapping[tuple[str, UUID], Lineage]
    """By table and rowguid, of rows that are gone, too."""


class MergeSight(Protocol):
    """Where a `MergeWatch` looks."""

    async def seen(self, node: str) -> NodeKnowledge:
        """What a node knows now."""
        ...

    async def new_conflicts(self) -> Sequence[tuple[UUID, dict[str, Any]]]:
        """The conflicts that were recorded since this was asked last: each one's rowguid, and what is told of it."""
        ...


class MergeWatch:
    """Watches the sessions of one case, one at a time."""

    def __init__(self, case: Case, sight: MergeSight) -> None:
        self._scenario = case.scenario
        self._off = case.off
        self._tree = MergeTree(case.scenario.topology.tree)
        self._sight = sight
        self._names: dict[int, str] = {}
        self._lives: dict[str, int] = {}
        self._sessions: list[EndedMergeSession] = []

    def taken(self) -> Sequence[EndedMergeSession]:
        """The sessions that have ended since this was asked last."""
        results, self._sessions = self._sessions, []
        return results

    @asynccontextmanager
    async def session(self, subscriber: str) -> AsyncIterator[None]:
        """Around a session with a Subscriber, which may fail."""
        if not self._names:
            for node in self._scenario.topology.nodes:
                self._note(node, await self._sight.seen(node))
        ends = (self._tree.publisher_of(subscriber), subscriber)
        before = {node: await self._sight.seen(node) for node in ends}
        if (
            ends[0] not in before[subscriber].marks
        ):  # it is being initialised, and no session begins
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
            for rowguid, each in await self._sight.new_conflicts()
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

    def _note(self, node: str, seen: NodeKnowledge) -> None:
        """Whom numbers in lineages stand for: ``anna``, and ``anna#2`` since she was restored, or began anew."""
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
        """With what both rows stand on, and why one has won."""
        if not conflict["winner"]:
            return conflict
        above, below = before
        row = conflict["table"], rowguid
        held, incoming = (before[node].lineages.get(row, {}) for node in (above, below))
        results: dict[str, Any] = {"incoming": subscriber, "why": self._why(subscriber, conflict)}
        meet = not (covers(held, incoming) or covers(incoming, held)) or held == incoming
        if meet and held and incoming:  # else one was changed while the session was under way
            results["stands_on"] = {
                "incoming": self._written(incoming), "held": self._written(held)
            }  # fmt: skip
        return conflict | results

    def _why(self, subscriber: str, conflict: Mapping[str, Any]) -> str:
        """What has decided; empty if nobody can tell from here."""
        if conflict["resolver"] and MergeProtection.RESOLVER not in self._off:
            return f"the resolver {conflict['resolver']} decides"
        winner, origin = conflict["winner"], conflict["origin"]
        if winner == origin or subscriber in self._tree.publishers:
            return ""  # both are of one node, or changes from below it have priorities of their own
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
        """Of a server subscription; None: the Publisher, or a client."""
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
    """What became of a sender's generations: each as it was before the session, and after it."""
    marks = [
        (seen[sender].marks[receiver], seen[receiver].marks[sender]) for seen in (before, after)
    ]
    arrived = [there.received for _, there in marks]
    if any(before[node].replicas != after[node].replicas for node in before):
        arrived[0] = 0  # an end was restored: what it had received was of another life
    return {
        "from": sender,
        "to": receiver,
        "closed": [before[sender].newest, after[sender].newest],
        "arrived": arrived,
        "acknowledged": [here.sent for here, _ in marks],
        "coming": marks[1][1].coming,
    }
