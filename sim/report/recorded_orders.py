"""A run's orders as reports read them: the run's header, and the records of one order at a time, folded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from twopc.sim.report.event_records import header_of
from twopc.sim.report.fold import Fold
from twopc.sim.report.history import HistoryRecord, by_order
from twopc.sim.report.judgement import Verdict, order_verdict


@dataclass(frozen=True, kw_only=True)
class PlayedOrder:
    """One order."""

    name: str
    header: Mapping[str, Any]
    """What the history's first record says of the run."""
    records: Sequence[HistoryRecord]

    @cached_property
    def fold(self) -> Fold:
        """What its records come to, found once for all reports."""
        return Fold(self.records)

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
        return self.fold.sessions

    @property
    def about(self) -> str:
        """What its author says of it."""
        return self.fold.about.message if self.fold.about is not None else ""

    @property
    def labels(self) -> Mapping[str, Any]:
        """What its first record says of it: `group`, `number`, `cell`, `twin`, `repeat`, as far as known."""
        return self.fold.about.labels if self.fold.about is not None else {}

    @property
    def twin(self) -> Mapping[str, Any]:
        """`protections` that are switched off and the check that `must_fail`; empty if it is no twin."""
        return dict(self.fold.twin)

    @property
    def cell(self) -> Mapping[str, str]:
        """The matrix' values under which it was played; empty without a matrix."""
        return dict(self.fold.about.cell if self.fold.about is not None else {})

    @property
    def isolation(self) -> Mapping[str, str]:
        """The isolation level of each node."""
        return dict(self.fold.levels)

    @property
    def verdict(self) -> Verdict:
        """How it was judged."""
        return order_verdict(self.records)


def played(records: Sequence[HistoryRecord]) -> Iterator[PlayedOrder]:
    """Each order of a run, in the order of playing."""
    header = header_of(records)
    for name, of in by_order(records):
        yield PlayedOrder(name=name, header=header, records=of)
