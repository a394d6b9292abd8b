"""One end of a merge session in memory; see `twopc.drivers.merge.ports.MergeEndPort`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from twopc.drivers.merge.ports import OutgoingChanges, SliceOutcome
from twopc.errors import MergeError
from twopc.merge.decision import RowVersion, Verdict
from twopc.merge.lineage import pack, packed, unpack, unpacked
from twopc.merge.marks import Generation, Marks
from twopc.merge.plan import MergeRow, Slice
from twopc.sim.model.merge.node import ModelMergeNode


class ModelMergeEnd:
    """See `MergeEndPort`.

    Args:
        agents: which neighbours an agent works for at this node; shared by all ends of the node.
    """

    def __init__(self, node: ModelMergeNode, neighbour: str, agents: set[str]) -> None:
        self.name = node.name
        self.node = node
        self._neighbour = neighbour
        self._agents = agents
        self._is_alone = False

    async def open(self, *, alone: bool) -> None:
        """See `MergeEndPort`."""
        if alone:
            if self._neighbour in self._agents:
                raise MergeError(
                    f"another merge agent works for this subscription at {self.name} (21036)",
                    node=self.name,
                )
            self._agents.add(self._neighbour)
            self._is_alone = True

    async def close(self) -> None:
        """See `MergeEndPort`."""
        if self._is_alone:
            self._agents.discard(self._neighbour)

    async def marks(self) -> Marks:
        """See `MergeEndPort`."""
        return self.node.marks(self._neighbour)

    async def knows(self, generation: Generation) -> bool:
        """See `MergeEndPort`."""
        return self.node.knows(generation)

    async def rewind(self) -> None:
        """See `MergeEndPort`."""
        self.node.rewind(self._neighbour)

    async def begin_anew(self, neighbour: int) -> None:
        """See `MergeEndPort`."""
        self.node.begin_anew(self._neighbour, neighbour)

    async def articles(self) -> Mapping[UUID, Collection[UUID]]:
        """See `MergeEndPort`."""
        return {artid: article.parents for artid, article in self.node.articles.items()}

    async def read(self, after: int, articles: Sequence[UUID]) -> OutgoingChanges:
        """See `MergeEndPort`."""
        generation = self.node.close()
        rows: dict[UUID, Sequence[MergeRow]] = {}
        for artid in articles if generation.number > after else ():
            changed = self.node.changed(artid, self._neighbour, after, generation.number)
            rows[artid] = [
                MergeRow(
                    rowguid=rowguid,
                    gone=metadata.version.gone,
                    lineage=json.dumps(packed(metadata.version.lineage)),
                    columns=_text(metadata.version.columns),
                    writer=metadata.writer,
                    row=None
                    if metadata.version.gone
                    else json.dumps(self.node.rows[artid][rowguid]),
                )
                for rowguid, metadata in changed.items()
            ]
        return OutgoingChanges(generation=generation, rows=rows)

    async def apply(self, part: Slice, coming: Generation) -> SliceOutcome:
        """See `MergeEndPort`."""
        decisions = [
            self.node.take(
                part.artid,
                self._neighbour,
                row.rowguid,
                RowVersion(
                    lineage=unpacked(json.loads(row.lineage)),
                    gone=row.gone,
                    columns=_columns(row.columns),
                ),
                row.writer,
                None if row.row is None else tuple(json.loads(row.row)),
            )
            for row in part.rows
        ]
        verdicts = [each.verdict for each in decisions]
        self.node.neighbours[self._neighbour].coming = coming
        return SliceOutcome(
            applied=sum(v in (Verdict.APPLY, Verdict.MERGE, Verdict.REPLACE) for v in verdicts),
            skipped=verdicts.count(Verdict.SKIP),
            conflicts=sum(each.conflict is not None for each in decisions),
            deferred=verdicts.count(Verdict.DEFER),
        )

    async def receive(self, generation: Generation, repeated: Sequence[Slice]) -> SliceOutcome:
        """See `MergeEndPort`; nothing fails here."""
        peer = self.node.neighbours[self._neighbour]
        peer.received, peer.coming = generation, None
        return SliceOutcome()

    async def acknowledge(
        self, generation: Generation, failed: Mapping[UUID, Collection[UUID]]
    ) -> None:
        """See `MergeEndPort`; nothing fails here."""
        self.node.neighbours[self._neighbour].sent = generation.number


def _text(columns: tuple[tuple[int, int] | None, ...] | None) -> str | None:
    if columns is None:
        return None
    return json.dumps([pack(*column) if column else 0 for column in columns])


def _columns(text: str | None) -> tuple[tuple[int, int] | None, ...] | None:
    if text is None:
        return None
    return tuple(unpack(entry) if entry else None for entry in json.loads(text))
