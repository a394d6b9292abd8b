"""The orders of a run as reports read them: the run's header, and the records of one order, with their fold."""

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
    """An order of a run."""

    name: str
    header: Mapping[str, Any]
    """The data of the history's header record."""
    records: Sequence[HistoryRecord]

    @cached_property
    def fold(self) -> Fold:
        """The fold of its records, made once for all reports."""
        return Fold(self.records)

    @property
    def publisher(self) -> str:
        """The Publisher's node."""
        return self.nodes[0] if self.nodes else ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """All nodes, the Publisher first; without a header the nodes that the order names."""
        if "publisher" in self.header:
            return (str(self.header["publisher"]), *self.header.get("subscribers", ()))
        return tuple(self.fold.levels)

    @property
    def about(self) -> str:
        """The author's description."""
        return self.fold.about.message if self.fold.about is not None else ""

    @property
    def labels(self) -> Mapping[str, Any]:
        """The data of its first record: `group`, `number`, `cell`, `twin`, `repeat`, as far as known."""
        return self.fold.about.labels if self.fold.about is not None else {}

    @property
    def verdict(self) -> Verdict:
        """The verdict on the order."""
        return order_verdict(self.records)


def played(records: Sequence[HistoryRecord]) -> Iterator[PlayedOrder]:
    """Yield each order of a run, in the order of playing."""
    header = header_of(records)
    for name, of in by_order(records):
        yield PlayedOrder(name=name, header=header, records=of)
