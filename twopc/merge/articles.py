"""Articles of merge replication, with their options: plain values."""

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
    """Treatment of changes made at a Subscriber (``subscriber_upload_options``)."""

    NORMAL = "normal"
    KEPT = "kept"
    """Changes are allowed, and stay at the Subscriber until the Publisher sends the row."""
    REFUSED = "refused"
    """Changes fail (20063)."""


class Logging(StrEnum):
    """The node at which conflicts are recorded (``conflict_logging``)."""

    PUBLISHER = "publisher"
    SUBSCRIBER = "subscriber"
    """The Subscriber in whose session the conflict occurred."""
    BOTH = "both"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeOptions:
    """Treatment of conflicts and failures of one article; the same at every node."""

    resolver: str | None = None
    """Name of the resolver, see `twopc.merge.resolvers`; None for the default resolver alone."""
    compensates: bool = False
    """Whether a change that cannot be applied at one end is undone at the other, instead of being retried."""
    upload: Upload = Upload.NORMAL
    keeps_deletes: bool = False
    """Whether deletions are not propagated (``delete_tracking`` off)."""
    conflict_logging: Logging = Logging.PUBLISHER
    conflict_retention_days: int = 14
    """Days for which conflicts are kept on record; 0 for ever."""


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
    """Return the options that a user has written.

    Args:
        where: the article, for messages.
        resolver: ``additive(total)``, ``python:module:function``, ``sql:schema.function`` …
        compensate: whether a change that cannot be applied at one end is undone at the other.
        upload: ``normal``, ``kept`` or ``refused``: treatment of changes made at Subscribers.
        deletes: ``carried`` or ``kept``: treatment of deletions.
        conflict_logging: ``publisher``, ``subscriber`` or ``both``: where conflicts are recorded.
        conflict_retention_days: days for which conflicts are kept on record; 0 for ever.

    Raises:
        ArticleError: an option is invalid.
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
    """A table whose changes are merged; the value is the same at every node except for the table's own name."""

    artid: UUID
    """Identifier used in the names of the article's triggers and functions; the same at every node."""
    nickname: int
    """Number of the article in metadata; the same at every node. Parents have lower numbers than their children."""
    schema: str
    table: str
    rowguid: str
    """The column that identifies a row at every node: uuid, NOT NULL and unique."""
    columns: tuple[Column, ...]
    """The columns that are sent besides `rowguid`, in the order of a row's values; no generated columns."""
    numbers: tuple[int, ...] = ()
    """For each column the number of its column version; the number of a dropped column is never used again. Empty
    if the numbers follow the order of the columns.
    """
    column_tracking: bool = False
    """Whether changes of different columns of a row are merged without a conflict."""
    options: MergeOptions = DEFAULT_OPTIONS
    references: tuple[ForeignKey, ...] = ()
    """Foreign keys of this table to other merged tables."""
    identity: MergeIdentity | None = None
    """The column whose values are drawn from ranges; None if there is none."""
    filter: MergeFilter | None = None
    """At the Publisher: the filter that decides which Subscribers get which rows; None if all get all rows."""

    @property
    def places(self) -> tuple[int, ...]:
        """For each column the number of its column version, from 1."""
        return self.numbers or tuple(range(1, len(self.columns) + 1))

    @property
    def versions(self) -> int:
        """Number of column versions of a row, including those of dropped columns."""
        return max(self.places, default=0)

    @property
    def name(self) -> str:
        """``table``, or ``schema.table`` outside ``public``."""
        return article_name(self.schema, self.table)
