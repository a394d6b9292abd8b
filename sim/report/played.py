"""A run's orders as reports read them: the run's header, and the records of one order at a time.

Pure functions of the records. Words are found elsewhere; here is only what belongs to what.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from twopc.names import BranchId
from twopc.sim.report.history import ENDS, Record, by_order
from twopc.sim.report.judged import Verdict, order_verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One order."""

    name: str
    header: Mapping[str, Any]
    """What the history's first record says of the run."""
    records: Sequence[Record]

    @property
    def publisher(self) -> str:
        """The Publisher's node."""
        return self.nodes[0] if self.nodes else ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes, the Publisher first; without a header those that the order names."""
        if "publisher" in self.header:
            return (str(self.header["publisher"]), *self.header.get("subscribers", ()))
        return tuple(self.isolation)

    @property
    def sessions(self) -> dict[str, str]:
        """The sessions that act in this order, and their nodes."""
        every = self._about.get("sessions", {})
        acting = {record.session for record in self.records if record.session}
        return {name: node for name, node in every.items() if name in acting}

    @property
    def about(self) -> str:
        """What its author says of it."""
        return next((record.message for record in self.records if record.kind == "order"), "")

    @property
    def said(self) -> Mapping[str, Any]:
        """What its first record says of it: `group`, `number`, `cell`, `twin`, `repeat`, as far as known."""
        return self._about

    @property
    def twin(self) -> Mapping[str, Any]:
        """`protections` that are switched off and the check that `must_fail`; empty if it is no twin."""
        return dict(self._about.get("twin") or {})

    @property
    def cell(self) -> Mapping[str, str]:
        """The matrix' values under which it was played; empty without a matrix."""
        return dict(self._about.get("cell") or {})

    @property
    def isolation(self) -> Mapping[str, str]:
        """The isolation level of each node."""
        return dict(self._about.get("isolation", {}))

    @property
    def verdict(self) -> Verdict:
        """How it was judged."""
        return order_verdict(self.records)

    @property
    def _about(self) -> Mapping[str, Any]:
        return next((record.data or {} for record in self.records if record.kind == "order"), {})


_END_A_WAIT = ENDS | {"blocked", "unblocked", "info"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step from the moment it was sent."""

    invoked: Record
    ended: Record | None
    """None if the history ends, or the order was given up, before it did."""
    until: int
    """The last record that belongs to it."""
    waits: tuple[tuple[Record, int], ...]
    """Each time it was blocked, and the `seq` of the record that says it no longer is."""


def played(records: Sequence[Record]) -> Iterator[Played]:
    """Each order of a run, in the order of playing."""
    header = records[0].data or {} if records else {}
    for name, of in by_order(records):
        yield Played(name=name, header=header, records=of)


def steps(records: Sequence[Record]) -> list[Step]:
    """Every step that was sent, in the order of sending."""
    return [
        _step(record, islice(records, at + 1, None))
        for at, record in enumerate(records)
        if record.kind == "invoke"
    ]


def _step(invoked: Record, following: Iterable[Record]) -> Step:
    waits: list[tuple[Record, int]] = []
    waiting: Record | None = None
    ended: Record | None = None
    until = invoked.seq
    for record in following:
        until = record.seq
        if (record.session, record.step) != (invoked.session, invoked.step):
            if record.kind in ("outcome", "verdict"):
                break
            continue
        if waiting is not None and record.kind in _END_A_WAIT:
            waits.append((waiting, record.seq))
            waiting = None
        if record.kind == "blocked":
            waiting = record
        elif record.kind in ENDS:
            ended = record
            break
        elif record.kind == "info":  # it was cancelled when the order was given up
            break
    if waiting is not None:
        waits.append((waiting, until))
    return Step(invoked=invoked, ended=ended, waits=tuple(waits), until=until)


def echoes(records: Sequence[Record]) -> set[int]:
    """The deliveries, by `seq`, of a transaction to the node where it was made.

    By who committed it, and not by what the agent says of its origin: that is what gets lost.
    """
    committed = {record.gid for record in records if (record.data or {}).get("committed")}
    made_at: dict[str, set[str]] = {}
    for record in records:
        if record.gid in committed and record.session and record.node and record.kind in ENDS:
            made_at.setdefault(record.gid, set()).add(record.node)
    return {
        record.seq
        for record in records
        if record.kind == "deliver" and record.gid
        # of one at several Subscribers each is brought what the others have changed
        and (
            made_at.get(record.gid) == {record.node}
            or (record.gid in made_at and (record.data or {}).get("origin") == record.node)
        )
    }  # fmt: skip


def took_effect_at(records: Sequence[Record]) -> dict[str, list[str]]:
    """The nodes at which each global transaction took effect, by the branch markers found there."""
    found: dict[str, list[str]] = {}
    for record in records:
        for marker in (record.data or {}).get("markers", ()):
            branch = BranchId.parse(str(marker["gid"]))
            if branch is not None and not marker.get("fence"):
                nodes = found.setdefault(str(branch.global_id), [])
                if record.node not in nodes:  # the Publisher has a branch for each Subscriber
                    nodes.append(record.node)
    return found


def causal(records: Sequence[Record]) -> list[Record]:
    """The records with each step's end behind the commit or rollback that let it end.

    Both become known within a millisecond, in whatever order; told is the cause first.
    """
    waited: dict[str, str] = {}
    ending: dict[str, str] = {}
    behind: dict[str, list[Record]] = {}
    found: list[Record] = []
    for record in records:
        if record.kind == "blocked":
            waited[record.step] = str((record.wait or {}).get("session"))
        elif record.kind == "invoke" and record.sql in ("commit", "rollback"):
            ending[record.session] = record.step
        holder = waited.get(record.step, "")
        if record.kind in ENDS and record.session and holder in ending:
            behind.setdefault(holder, []).append(record)
            continue
        found.append(record)
        if record.kind in ENDS and ending.get(record.session) == record.step:
            del ending[record.session]
            found += behind.pop(record.session, [])
    return found + [each for late in behind.values() for each in late]
