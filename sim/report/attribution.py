"""Attribution of rows to the transactions that wrote them, from what the history proves, never from coincidence in
time.

A look at a node records the transaction id of each row's writer and the branches that have committed there since
the previous look. The branches are known by their markers, which belong to the same snapshot as the rows. A row
whose writer is a branch's transaction belongs to that branch. On servers a subtransaction, which has an id of its
own, may have written a row, and a transaction of the Publisher's own sessions has no marker: the writer is then one
of the transactions that became visible between the two looks, and it is named only if there is exactly one. A pure
function of one order's events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twopc.names import BranchId
from twopc.sim.report.events import AgentDelivery, HistoryEvent, TableLook
from twopc.sim.report.transactions import Author, by_gid


class Attribution:
    """Attributes the rows of an order's looks; `look` is called for each look, in order.

    Args:
        authors: the order's transactions.
        effects: where each global transaction took effect: the only information on branches in an old history.
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
        """The transactions with an effect seen at a node, and the first look that showed one."""
        self._publisher = next((each.node for each in events if isinstance(each, TableLook)), "")
        self._marked = "marker" not in twin.get("protections", ())
        self._applied: dict[str, list[int]] = {}
        """The `seq` of each delivery by an agent, by node."""
        for event in events:
            if isinstance(event, AgentDelivery):
                self._applied.setdefault(event.node, []).append(event.seq)
        self._writers: dict[str, dict[str, Author]] = {}
        """The transactions whose ids are known, by node and id."""
        for one in authors:
            if one.xid and one.outcome != "rolled back":
                self._writers.setdefault(one.node, {})[one.xid] = one
        self._new: dict[str, Author] = {}
        """The transactions whose branches the current look is the first to show, by transaction id."""
        self._tells_branches = True
        self._node = ""
        self._now = self._previous = -1
        """The first events of the current look and of the previous look at the same node."""
        self._looks: dict[str, int] = {}

    def look(self, look: TableLook, *, begins: bool) -> None:
        """Process a look at a table; `begins`: whether the table is the node's first in this round of looks."""
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
        """Return the transactions one of which wrote a row that the current look is the first to show.

        Args:
            xid: the writer's transaction id if known; that of a deleted row is not known.
        """
        exact = self._writers[node].get(xid)
        results = [exact] if exact is not None else self._candidates(node, xid)
        if len(results) == 1:
            self._claimed.setdefault((results[0], node), self._now)
        return results

    def _of_branch(self, gid: str, look: TableLook) -> Author:
        """Return the transaction of a branch; if no session knows its id, the only transaction that it can be, or a
        new one.
        """
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
                # without markers nothing proves a branch: refused transactions are taken to be rolled back
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
        """Return the transactions without a branch that may have become visible between the two looks."""
        return [one for one in self._authors if not one.gid and self._in_time(one)]

    def _in_time(self, one: Author) -> bool:
        """Return whether the transaction may have become visible between the two looks."""
        if one.outcome == "committed":
            return one.sent < self._now and self._previous < one.seq
        return (
            one.sent < self._now
            and self._is_new(one)
            and (one.outcome == "in doubt" or (bool(one.gid) and one.has_asked))
        )

    def _is_late(self, one: Author) -> bool:
        """Return whether a branch may have been finished at the node only after its transaction's commit was
        answered.
        """
        answered = one.outcome == "committed" and bool(one.gid) and one.sent < self._now
        return answered and self._is_new(one)

    def _is_new(self, one: Author) -> bool:
        """Return whether no earlier look at the node showed an effect of the transaction."""
        return self._claimed.get((one, self._node), self._now) == self._now

    def _at(self, one: Author, node: str) -> bool:
        """Return whether, by an old history, the transaction can have taken effect at a node."""
        if not one.gid:
            return node in one.nodes
        nodes = self._effects.get(one.gid)
        return node in nodes if nodes is not None else one.outcome == "committed"
