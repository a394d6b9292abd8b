"""Positions of an article's values in the log's rows of its table, and the keys that distinguish rows."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from operator import itemgetter, ne

from twopc.articles import Column
from twopc.core import RowPlan, int4_of
from twopc.distributed_article import DistributedArticle
from twopc.errors import ArticleError
from twopc.names import VERSION_COLUMN
from twopc.proc_execution import BESIDE
from twopc.propagation import TYPE_OF
from twopc.publisher.pgoutput import UNCHANGED, RelationMessage, RowMessage

#: article id, type, hashkey, command
Command = tuple[int, int, int, bytes]
Make = Callable[[RowMessage], Command]
Values = Sequence[bytes | None]
Pick = Callable[[Values], Values]

STREAMS_MAX = 64

# Types whose equal values have equal texts, so that a key's text determines its stream.
_CANONICAL = re.compile(
    r"(smallint|integer|bigint|oid|uuid|boolean|text|name|bytea|date|character(?: varying)?(?:\(\d+\))?"
    r"|timestamp(?:\(\d\))? with(?:out)? time zone|numeric\(\d+,-?\d+\))\Z"
)


class LoggedRows:
    """Rows of one article over one relation, as the log announces the relation."""

    def __init__(self, relation: RelationMessage, distributed: DistributedArticle) -> None:
        place = {column.name: at for at, column in enumerate(relation.columns)}
        self.article = distributed.article
        self.article_id = distributed.article_id
        self.large = distributed.propagation.large
        values = [place[column.name] for column in self.article.value_columns]
        keys = [place[column.name] for column in self.article.key_columns]
        #: takes the article's values out of a row
        self.pick = picker(values, len(place))
        #: takes the key out of a row
        self.key = picker(keys, len(place))
        #: how many streams its rows spread over; 0: one for all
        self._streams = _streams(self.article.key_columns)
        #: from a key to the hashkey of a command
        self.hashkey = _hashkeys(self._streams, len(keys))
        #: where the row version is
        self.version = place[VERSION_COLUMN]
        #: where the values and the key are in a row
        self._values, self._keys = values, keys
        self._width = len(place)

    def plan(self, operation: str) -> RowPlan:
        """Return the plan for `CommandScanner`: such changes become CALL, or SCALL for an update."""
        code = self.article_id * 100 + TYPE_OF[operation]
        return RowPlan(
            code=int4_of(code),
            beside=int4_of(code + 100 * BESIDE),
            width=self._width,
            values=self._values,
            keys=self._keys,
            version=self.version,
            hashkeys=[int4_of(number + 1) for number in range(self._streams)] or [int4_of(0)],
        )

    def lacking(self, what: str) -> ArticleError:
        """Return the error that the log does not contain what a command needs."""
        name = self.article.name
        return ArticleError(
            f"article {name}: the log lacks {what}, because the table or a partition of it has lost "
            "REPLICA IDENTITY FULL: `twopc regenerate` it, and `twopc reinitialise` its Subscribers"
        )

    def old_row(self, change: RowMessage) -> Values | None:
        """Return the whole old row; None if the log does not contain it.

        A partition may have another replica identity than its parent, under whose name the log reports its rows:
        the row version, which is never NULL, shows whether the row is whole.
        """
        old = change.old
        if old is None or change.old_is_key or old[self.version] is None:
            return None
        return old

    def old_row_needed(self, change: RowMessage) -> Values:
        """Return the whole old row as `old_row` does; raise ArticleError if the log lacks it."""
        old = self.old_row(change)
        if old is None:
            raise self.lacking("the old row")
        return old

    def differences(self, change: RowMessage) -> tuple[bool, ...]:
        """Return which values changed; without the old row, every value that the log contains counts as changed."""
        assert change.new is not None
        old = self.old_row(change)
        if old is None:
            return tuple([value is not UNCHANGED for value in self.pick(change.new)])
        return tuple(map(ne, self.pick(old), self.pick(change.new)))

    def old_key(self, change: RowMessage) -> Values:
        """Return the old key: that of the new image if there is no old one, since the key is then unchanged."""
        image = change.new if change.old is None else change.old
        assert image is not None
        return self.key(image)

    def whole(self, values: Values) -> Values:
        """Return values, all of which the log must contain; raise ArticleError if it lacks one."""
        if UNCHANGED in values and any(value is UNCHANGED for value in values):
            raise self.lacking("a large value that did not change")
        return values


def picker(places: Sequence[int], width: int) -> Pick:
    """Return a function that takes these places out of a row."""
    if list(places) == list(range(width)):
        return lambda row: row
    if len(places) == 1:
        (only,) = places
        return lambda row: (row[only],)
    return itemgetter(*places)


def _streams(columns: Sequence[Column]) -> int:
    """Return the number of streams; 0 if the text of a key does not identify the key."""
    for column in columns:
        if column.equality != "=" or column.collation or not _CANONICAL.match(column.type):
            return 0
    return STREAMS_MAX - 1


def _hashkeys(streams: int, width: int) -> Callable[[Values], int]:
    """Return a function from the key's values to 1 … 63; always 0 if there is only one stream."""
    crc = zlib.crc32
    if not streams:
        return lambda known: 0
    if width == 1:
        return lambda known: crc(known[0] or b"") % streams + 1
    return lambda known: crc(b"\0".join([value or b"" for value in known])) % streams + 1
