"""Which transaction wrote a row, from what the history proves and never from what happened about the same time.

A look at a node tells the transaction id of each row's writer, and the branches that have committed there since
the look before, by their markers, which belong to the same snapshot. A row whose writer is a branch's
transaction is that branch's. On servers a row may be written by a subtransaction, which has an id of its own, and
a transaction of the Publisher's own sessions has no marker: then the writer is one of those that became visible
between the two looks, and it is named if there is only one. A pure function of one order's events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twopc.names import BranchId
from twopc.sim.report.events import AgentDelivery, HistoryEvent, TableLook
from twopc.sim.report.transactions import Author, by_gid


class Attribution:
    """Follows an order's looks; `look` is called with each, in their order.

    Args:
        authors: the order's transactions.
        effects: where each global transaction took effect: all that an old history tells of branches.
        twin: `Fold.twin`.
    """

    def __init__(
        self,
        events: Sequence[HistoryEvent],
        authors: Sequence[Author],
        effects: Mapping[str, Sequence[str]],
        twin: Mapping[str, Any],
    ) -> None:
        self._authors = authors
        self._effects = effects
        self._by_gid = by_gid(authors)
        self._claimed: dict[tuple[Author, str], int] = {}
        """Those of which something was seen at a node, with the look that has shown it first."""
        self._publisher = next((each.node for each in events if isinstance(each, TableLook)), "")
        self._marked = "marker" not in twin.get("protections", ())
        self._applied: dict[str, list[int]] = {}
        """By node, when an agent has worked there."""
        for event in events:
            if isinstance(event, AgentDelivery):
                self._applied.setdefault(event.node, []).append(event.seq)
        self._writers: dict[str, dict[str, Author]] = {}
        """By node and id, the transactions whose ids are known."""
        for one in authors:
            if one.xid and one.outcome != "rolled back":
                self._writers.setdefault(one.node, {})[one.xid] = one
        self._new: dict[str, Author] = {}
        """Those that this look has shown first."""
        self._tells_branches = True
        self._node = ""
        self._now = self._previous = -1
        """The events with which this look, and the one before it at the same node, begin."""
        self._looks: dict[str, int] = {}

    def look(self, look: TableLook, *, begins: bool) -> None:
        """A look at a table; `begins`: the first of a node's tables."""
        if not begins:
            return
        node, branches = look.node, look.branches
        self._node = node
        self._previous = self._looks.get(node, -1)
        self._now = self._looks[node] = look.seq
        self._tells_branches = branches is not None
        self._new = {}
        for gid, xid in (branches or {}).items():
            branch = BranchId.parse(gid)
            if branch is not None:
                self._new[xid] = self._of_branch(str(branch.global_id), look)
        self._writers.setdefault(node, {}).update(self._new)

    def of(self, node: str, xid: str) -> list[Author]:
        """The transactions of which one has written a row that this look shows first.

        Args:
            xid: the writer's, as far as it is known: of a row that is gone it is not.
        """
        exact = self._writers[node].get(xid)
        results = [exact] if exact is not None else self._candidates(node, xid)
        if len(results) == 1:
            self._claimed.setdefault((results[0], node), self._now)
        return results

    def _of_branch(self, gid: str, look: TableLook) -> Author:
        """The transaction of a branch; one of a session that does not know its id, if it can be no other."""
        known = self._by_gid.get(gid)
        if known is not None:
            return known
        others = [one for one in self._unmarked() if one.steps and one.node != self._publisher]
        if len(others) == 1:
            return others[0]
        at = look.seq
        return Author(session="", node="", gid=gid, outcome="committed", begun=at, sent=at, seq=at)

    def _candidates(self, node: str, xid: str) -> list[Author]:
        if not self._tells_branches:
            every = [
                one
                for one in self._authors
                if (self._in_time(one) or self._is_late(one)) and self._at(one, node)
            ]
        else:
            # a subtransaction's id is higher than that of the transaction that it belongs to
            marked = [one for top, one in self._new.items() if not xid or int(top) < int(xid)]
            every = [*marked, *(one for one in self._unmarked() if self._may_be(one, node, xid))]
            if not self._marked:
                # nothing proves a branch then, so what was refused is believed to be rolled back
                every += [
                    one
                    for one in self._authors
                    if one.gid and one.outcome != "rolled back" and self._in_time(one)
                ]
        agents = self._applied.get(node, ())
        if any(self._previous < at < self._now for at in agents):
            return []  # an agent may have written it, in a version that the Publisher was not seen to have
        results = list(dict.fromkeys(every))
        return [one for one in results if one.steps] or results

    def _may_be(self, one: Author, node: str, xid: str) -> bool:
        is_later = not (one.xid and xid) or int(one.xid) < int(xid)
        return node in one.nodes and is_later

    def _unmarked(self) -> list[Author]:
        """Those without a branch that may have become visible between the two looks."""
        return [one for one in self._authors if not one.gid and self._in_time(one)]

    def _in_time(self, one: Author) -> bool:
        """Whether it may have become visible between the two looks."""
        if one.outcome == "committed":
            return one.sent < self._now and self._previous < one.seq
        return (
            one.sent < self._now
            and self._is_new(one)
            and (one.outcome == "in doubt" or (bool(one.gid) and one.has_asked))
        )

    def _is_late(self, one: Author) -> bool:
        """Whether a branch may have been finished here only after its transaction was answered."""
        answered = one.outcome == "committed" and bool(one.gid) and one.sent < self._now
        return answered and self._is_new(one)

    def _is_new(self, one: Author) -> bool:
        """No earlier look at this node has shown something of it."""
        return self._claimed.get((one, self._node), self._now) == self._now

    def _at(self, one: Author, node: str) -> bool:
        """Whether an old history allows that it took effect at a node."""
        if not one.gid:
            return node in one.nodes
        nodes = self._effects.get(one.gid)
        return node in nodes if nodes is not None else one.outcome == "committed"
