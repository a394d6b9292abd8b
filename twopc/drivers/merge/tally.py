"""Counts of a merge session by article and direction."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from twopc.drivers.merge.ports import ArticleCounts, SessionRecord, SliceOutcome
from twopc.merge.plan import Slice


class SessionTally:
    """Counts the outcomes of a session, and makes its record."""

    def __init__(self) -> None:
        self.is_resumed = False
        self.is_anew = False
        self._counts: dict[tuple[bool, UUID], ArticleCounts] = {}

    def _of(self, artid: UUID, *, is_upload: bool) -> ArticleCounts:
        empty = ArticleCounts(artid=artid, is_upload=is_upload)
        return self._counts.get((is_upload, artid), empty)

    def add(self, part: Slice, outcome: SliceOutcome, *, is_upload: bool) -> None:
        """Add the outcome of a slice."""
        before = self._of(part.artid, is_upload=is_upload)
        self._counts[is_upload, part.artid] = replace(
            before,
            rows=before.rows + outcome.applied,
            deletes=before.deletes + (outcome.applied if part.gone else 0),
            conflicts=before.conflicts + outcome.conflicts,
            deferred=before.deferred + len(outcome.deferred),
        )

    def add_repeated(self, artid: UUID, count: int, failed: int, *, is_upload: bool) -> None:
        """Add the outcome of rows of an article that were retried at the end of a direction."""
        if count:
            before = self._of(artid, is_upload=is_upload)
            self._counts[is_upload, artid] = replace(
                before, rows=before.rows + count - failed, retried=before.retried + failed
            )

    def record(self, error: str | None = None) -> SessionRecord:
        """Return the record of the session."""
        return SessionRecord(
            articles=tuple(self._counts.values()),
            resumed=self.is_resumed,
            anew=self.is_anew,
            error=error,
        )
