"""What merge replication tracks of one table: plain values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from twopc.articles import Column, ForeignKey
from twopc.errors import ArticleError
from twopc.merge.partitions import MergeFilter
from twopc.merge.ranges import MergeIdentity
from twopc.names import article_name

#: The original's limit, of a table with column tracking and of an article without (facts 3.5).
COLUMNS_MAX = 246
ROWGUID = "rowguid"


class Upload(StrEnum):
    """What becomes of changes at a Subscriber (``subscriber_upload_options``)."""

    NORMAL = "normal"
    KEPT = "kept"
    """They are allowed, and stay there until the Publisher sends the row."""
    REFUSED = "refused"
    """They fail (20063)."""


class Logging(StrEnum):
    """Where conflicts are on record (``conflict_logging``)."""

    PUBLISHER = "publisher"
    SUBSCRIBER = "subscriber"
    """At the Subscriber in whose session they were met."""
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOptions:
    """How conflicts and failures of one article are dealt with; the same at every node."""

    resolver: str | None = None
    """See `twopc.merge.resolvers`; None: the default resolver alone."""
    compensates: bool = False
    """A change that cannot be applied at one end is undone at the other, instead of tried again."""
    upload: Upload = Upload.NORMAL
    keeps_deletes: bool = False
    """Deletions are carried nowhere (``delete_tracking`` off)."""
    conflict_logging: Logging = Logging.PUBLISHER
    conflict_retention_days: int = 14
    """How long conflicts stay on record; 0: for ever."""


DEFAULT_OPTIONS = MergeOptions()


def options_of(
    where: str,
    *,
    resolver: str | None = None,
    compensate: bool = False,
    upload: str = "normal",
    deletes: str = "carried",
    conflict_logging: str = "publisher",
    conflict_retention_days: int = 14,
) -> MergeOptions:
    """Options as a user writes them.

    Args:
        where: the article, for messages.
        resolver: ``additive(total)``, ``python:module:function``, ``sql:schema.function`` …
        compensate: a change that cannot be applied at one end is undone at the other.
        upload: ``normal``, ``kept`` or ``refused``: what becomes of changes at Subscribers.
        deletes: ``carried`` or ``kept``: what becomes of deletions.
        conflict_logging: ``publisher``, ``subscriber`` or ``both``: where conflicts are on record.
        conflict_retention_days: how long conflicts stay on record; 0: for ever.

    Raises:
        ArticleError: there is no such option.
    """
    for name, value, allowed in (
        ("upload", upload, tuple(Upload)),
        ("conflict_logging", conflict_logging, tuple(Logging)),
        ("deletes", deletes, ("carried", "kept")),
    ):
        if value not in allowed:
            raise ArticleError(
                f"{where}: {name} {value!r}: use {' or '.join(map(repr, map(str, allowed)))}"
            )
    if conflict_retention_days < 0:
        raise ArticleError(f"{where}: conflicts cannot be kept for {conflict_retention_days} days")
    return MergeOptions(
        resolver=resolver,
        compensates=compensate,
        upload=Upload(upload),
        keeps_deletes=deletes == "kept",
        conflict_logging=Logging(conflict_logging),
        conflict_retention_days=conflict_retention_days,
    )


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
    """What travels besides `rowguid`, in the order of a row's values; no generated columns."""
    numbers: tuple[int, ...] = ()
    """Which of the column versions is whose; that of a dropped column is never used again. Empty: as the columns stand."""
    column_tracking: bool = False
    """Changes of different columns of a row meet without a conflict."""
    options: MergeOptions = DEFAULT_OPTIONS
    references: tuple[ForeignKey, ...] = ()
    """Foreign keys of this table to tables that are merged, too."""
    identity: MergeIdentity | None = None
    """The column whose values are drawn from ranges; None: none is."""
    filter: MergeFilter | None = None
    """At the Publisher: which Subscribers get which rows; None: every one gets all."""

    @property
    def places(self) -> tuple[int, ...]:
        """Which of the column versions is whose, from 1."""
        return self.numbers or tuple(range(1, len(self.columns) + 1))

    @property
    def versions(self) -> int:
        """How many column versions a row has, with those of dropped columns."""
        return max(self.places, default=0)

    @property
    def name(self) -> str:
        """``table``, or ``schema.table`` outside ``public``."""
        return article_name(self.schema, self.table)
