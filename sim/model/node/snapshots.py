"""Snapshots: which commits a statement sees, and which of its own transaction's commands.

Pure functions, without knowledge of locks.
"""

from __future__ import annotations

from twopc.sim.model.node.heap import HeapRow, Version
from twopc.sim.model.node.transactions import TopXact, Xact


class CommitSnapshot:
    """A snapshot: the commits up to a number, and the own transaction's commands before a command id."""

    __slots__ = ("cid", "no", "top")

    def __init__(self, no: int, top: TopXact | None, cid: int) -> None:
        self.no = no
        self.top = top
        self.cid = cid

    def sees(self, xact: Xact) -> bool:
        """Whether the snapshot sees a transaction: its own, or one committed before it."""
        top = xact.top
        return top is self.top or 0 < top.commit_no <= self.no

    def version(self, row: HeapRow) -> Version | None:
        """Return the visible version of a row; None if there is none."""
        own, no, cid = self.top, self.no, self.cid
        for version in reversed(row.versions):
            top = version.xmin.top
            if top is own:
                if version.cmin >= cid:
                    continue
            elif not 0 < top.commit_no <= no:
                continue
            ended = version.xmax
            if ended is None:
                return version
            top = ended.top
            if top is own:
                return version if version.cmax >= cid else None
            return None if 0 < top.commit_no <= no else version
        return None
