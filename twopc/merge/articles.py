"""What merge replication tracks of one table: plain values."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from twopc.articles import Column, ForeignKey
from twopc.names import article_name

#: The original's limit, of a table with column tracking and of an article without (facts 3.5).
COLUMNS_MAX = 246
ROWGUID = "rowguid"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeArticle:
    """A table whose changes are merged; the same value at every node but for the table's own name."""

    artid: UUID
    """Part of the names of its triggers and functions; the same at every node."""
    nickname: int
    """Names it in metadata; the same at every node. Parents have lower ones than their children."""
    schema: str
    table: str
    rowguid: str
    """The column by which a row is known at every node: uuid, NOT NULL and unique."""
    columns: tuple[Column, ...]
    """What travels besides `rowguid`, in the order of the column versions; no generated columns."""
    column_tracking: bool = False
    """Changes of different columns of a row meet without a conflict."""
    references: tuple[ForeignKey, ...] = ()
    """Foreign keys of this table to tables that are merged, too."""

    @property
    def name(self) -> str:
        """``table``, or ``schema.table`` outside ``public``."""
        return article_name(self.schema, self.table)
