"""Snapshots in files on a model, and their delivery. Implements the effects of `twopc.sim.merge.delivery`."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from twopc.drivers.points import Points
from twopc.merge.protections import MergeProtection
from twopc.merge.snapshots import SnapshotKind
from twopc.sim.model.merge.copies import initialise
from twopc.sim.model.merge.ranges import begin_ranges
from twopc.sim.model.merge.site import MergeSite, SiteKnowledge
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.values import Values


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSnapshot:
    """The state of a Publisher when a snapshot was made."""

    knowledge: SiteKnowledge
    rows: Mapping[UUID, Sequence[tuple[UUID, Values]]]
    """Rows by article, each with its rowguid."""

    def is_usable(self, above: SiteKnowledge) -> bool:
        """Return whether a Subscriber initialised with it can synchronise with the Publisher."""
        begun = self.knowledge.newest.generation
        return above.knows(begun) and above.cleaned <= begun.number

    def files(self, articles: Sequence[UUID]) -> list[tuple[SnapshotKind, UUID]]:
        """Return the files in the order of delivery: one of each kind for each table, but no data of empty tables."""
        return [
            (kind, artid)
            for kind in SnapshotKind
            for artid in articles
            if kind is not SnapshotKind.DATA or self.rows[artid]
        ]


def snapshot_of(site: MergeSite) -> ModelSnapshot:
    """Close a generation, and return a snapshot of the Publisher."""
    site.knowledge.close()
    return ModelSnapshot(
        knowledge=copy.deepcopy(site.knowledge),
        rows={
            artid: [(site.rowguid(artid, row), row) for row in table.rows()]
            for artid, table in site.tables.items()
        },
    )


class ModelSnapshotDelivery:
    """The delivery of a snapshot to a Subscriber with empty tables. A repeated run continues at the next file.

    Args:
        site: the Subscriber.
        publisher: the Publisher's name.
        articles: in the order of table creation: a table follows those to which it refers.
        without: protections that are switched off.
    """

    def __init__(
        self,
        site: MergeSite,
        publisher: str,
        kept: ModelSnapshot,
        articles: Sequence[UUID],
        points: Points,
        without: Set[MergeProtection],
    ) -> None:
        self._site = site
        self._publisher = publisher
        self._kept = kept
        self._articles = articles
        self._points = points
        self._without = without
        self._done = 0
        """Number of files that have been delivered."""

    async def run(self, above: SiteKnowledge) -> None:
        """Deliver the missing files, and register the subscription at both nodes.

        Args:
            above: the Publisher's metadata.
        """
        known = copy.deepcopy(self._site.knowledge)
        kept = self._kept.knowledge
        initialise(known, self._publisher, copy.deepcopy(above), copy.deepcopy(kept))
        await self._reach("begun")
        for place, (kind, artid) in enumerate(self._kept.files(self._articles), 1):
            if place > self._done:
                if MergeProtection.FILE_COMMIT in self._without:
                    self._done = place
                await self._load(kind, artid, known)
                self._done = place
                await self._reach("file_loaded")
        await self._reach("activated")
        as_of_now = MergeProtection.SNAPSHOT_GENERATION in self._without
        initialise(self._site.knowledge, self._publisher, above, kept, as_of_now=as_of_now)
        begin_ranges(above, self._site.knowledge)
        self._site.watch()

    async def _load(self, kind: SnapshotKind, artid: UUID, known: SiteKnowledge) -> None:
        rows = [row for guid, row in self._kept.rows[artid] if guid in known.rows[artid]]
        held = {SnapshotKind.DATA: rows, SnapshotKind.METADATA: known.metadata[artid]}
        if held.get(kind):
            await self._reach("file_begun")
        if kind is SnapshotKind.DATA:
            name = self._site.tables[artid].name
            for row in rows:
                self._site.node.outside(
                    partial(OpenTx.insert, table=name, row=row), f"a copy of {name}"
                )

    async def _reach(self, place: str) -> None:
        if self._points.armed:
            await self._points.reach(f"merge_delivery.{place}({self._site.node.name})")
