"""Regular expressions that parse a change of a known shape and produce its command in one pass.

Values are preceded by their length, which no regular expression can interpret; but the lengths seen in a column can
be listed, each followed by that number of bytes. A match is therefore parsed exactly as the decoder would.
A column with too many lengths matches any bytes except NUL (which no value of PostgreSQL contains), and its length
is compared afterwards. Messages that do not match are left to the decoder.

Pure; the module does not know when shapes are learned or dropped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from operator import ne
from zlib import crc32

from twopc.propagation import TYPE_OF
from twopc.publisher.commands.calls import mask_text
from twopc.publisher.commands.rows import Command, LoggedRows
from twopc.publisher.pgoutput import UNCHANGED, RowMessage

#: Maximum number of lengths listed for a column, each below 256; a longer list costs more than it saves.
_LENGTHS_MAX = 16
#: Kinds of a column in a command: unchanged, NULL, or a value.
_SAME, _NULL, _VALUE = range(3)

Shape = tuple[object, ...]
"""Common properties of the messages that one expression matches, except the lengths seen."""


class ColumnSample:
    """Lengths and NULLs seen among the values of one column."""

    __slots__ = ("lengths", "null", "varied")

    def __init__(self) -> None:
        self.lengths: dict[int, int] = {}
        """Number of occurrences of each length."""
        self.null = False
        self.varied = False
        """Whether there are too many lengths to list."""

    def by_frequency(self) -> list[int]:
        """Return the lengths, the most frequent one first."""
        return sorted(self.lengths, key=self.lengths.__getitem__, reverse=True)

    def add(self, value: bytes | None) -> None:
        """Add a value to the sample."""
        if value is None:
            self.null = True
        elif not self.varied:
            length = len(value)
            self.lengths[length] = self.lengths.get(length, 0) + 1
            if length > 0xFF or len(self.lengths) > _LENGTHS_MAX:
                self.varied = True
                self.lengths.clear()


Read = Callable[[bytes], Command | None]
"""Function that returns the command of a message; None if the message does not match."""


def shape_of(rows: LoggedRows, change: RowMessage) -> Shape | None:
    """Return the shape of a change; None if the change is unsuitable for an expression.

    Rare changes are unsuitable, and sent values with quotes or backslashes (34 and 92).
    """
    _, operation, old, new, old_is_key = change
    image = new if old is None else old
    assert image is not None
    key = rows.key(image)
    if any(value is UNCHANGED for value in image):
        return None
    shape: Shape
    if operation == "del":
        shape, sent = (old_is_key,), key
    else:
        assert new is not None
        values = sent = rows.pick(new)
        shape = tuple([_NULL if value is None else _VALUE for value in values])
        if operation == "upd":
            if old is None or old_is_key or old[rows.version] is None:
                return None
            differs = list(map(ne, rows.pick(old), values))
            shape = tuple(
                [kind if other else _SAME for kind, other in zip(shape, differs, strict=True)]
            )
            sent = [*compress(values, differs), *key]
    if None in key or any(value and (34 in value or 92 in value) for value in sent):
        return None
    return shape


def reading(
    rows: LoggedRows,
    oid: bytes,
    operation: str,
    shape: Shape,
    seen: Sequence[ColumnSample],
) -> Read:
    """Return a function that parses messages of a shape.

    Args:
        oid: of the relation, as in messages.
        seen: samples of the relation's columns.
    """
    made, keys = _PatternBuilder(seen), rows.key_places
    known: Sequence[int]
    if operation == "del":
        old = made.row(b"D" + oid + (b"K" if shape[0] else b"O"), dict.fromkeys(keys, _VALUE))
        groups = [old[at] for at in keys]
        known = range(len(keys))
        fields = [b'"%b"'] * len(keys)
    else:
        places = rows.value_places
        kinds = dict(zip(places, shape, strict=True))
        valued = [at for at in places if kinds[at] == _VALUE]
        fields = [b'"%b"' if kind == _VALUE else b"" for kind in shape]
        if operation == "ins":
            new = made.row(b"I" + oid + b"N", kinds)
            groups = [new[at] for at in valued]
            known = [valued.index(at) for at in keys]
        else:
            old, new = made.updated(oid, rows, kinds)
            groups = [new[at] for at in valued] + [old[at] for at in keys]
            known = range(len(valued), len(groups))
            mask = mask_text([kind != _SAME for kind in shape])
            fields += [b'"%b"'] * len(keys) + [b'"\\%b"' % mask]
    text = b"(%b)" % b",".join(fields)
    if len(groups) == 1:
        groups.append(made.nothing())  # a match returns a tuple of groups only if there are several
        text += b"%b"
    return _read(
        rows,
        TYPE_OF[operation],
        match=made.match(),
        checks=tuple(made.checks),
        taken=tuple(groups),
        known=tuple(known),
        text=text,
    )


def _read(
    rows: LoggedRows,
    code: int,
    *,
    match: Callable[[bytes], re.Match[bytes] | None],
    checks: tuple[tuple[int, int], ...],
    taken: tuple[int, ...],
    known: tuple[int, ...],
    text: bytes,
) -> Read:
    """Return a function that applies an expression.

    Args:
        checks: groups that hold a length and the value that must have that length.
        taken: groups whose values go into the text.
        known: places of the key among them.
        text: template with a place for each of them.
    """
    article, only = rows.article_id, known[0]
    # a remainder by 1 is 0: the one stream for all
    streams, first = (rows.streams, 1) if rows.streams else (1, 0)
    quotes, slashes = text.count(b'"'), text.count(b"\\")

    def single(data: bytes) -> Command | None:
        result = match(data)
        if result is None or (checks and not _fit(result, checks)):
            return None
        values = result.group(*taken)
        made = text % values
        # 34 and 92 are a quote and a backslash; in the message they may also be in other values or lengths
        if (34 in data or 92 in data) and (made.count(34) != quotes or made.count(92) != slashes):
            return None
        return (article, code, crc32(values[only]) % streams + first, made)

    if len(known) == 1:
        return single

    def composed(data: bytes) -> Command | None:
        results = match(data)
        if results is None or (checks and not _fit(results, checks)):
            return None
        values = results.group(*taken)
        made = text % values
        if (34 in data or 92 in data) and (made.count(34) != quotes or made.count(92) != slashes):
            return None
        key = b"\0".join([values[place] for place in known])
        return (article, code, crc32(key) % streams + first, made)

    return composed


def _fit(result: re.Match[bytes], checks: Sequence[tuple[int, int]]) -> bool:
    """Return whether values have the length that precedes them; NULL values have no groups."""
    for length, value in checks:
        if result[value] is not None and int.from_bytes(result[length], "big") != len(
            result[value]
        ):
            return False
    return True


class _PatternBuilder:
    """Builds an expression. Methods return groups, by the relation's columns."""

    def __init__(self, seen: Sequence[ColumnSample]) -> None:
        self._seen = seen
        self._parts: list[bytes] = []
        self._groups = 0
        self.checks: list[tuple[int, int]] = []

    def match(self) -> Callable[[bytes], re.Match[bytes] | None]:
        """Return the match function of the expression."""
        return re.compile(b"".join(self._parts), re.DOTALL).fullmatch

    def row(self, head: bytes, kinds: Mapping[int, object]) -> dict[int, int]:
        """Add an insert or a delete, of which `head` is the beginning; return the groups of its values."""
        self._begin(head)
        values: dict[int, int] = {}
        for at in range(len(self._seen)):
            if at not in kinds:
                self._any(at)
            elif kinds[at] == _NULL:
                self._add(b"n")
            else:
                values[at] = self._value(at)
        return values

    def updated(
        self, oid: bytes, rows: LoggedRows, kinds: Mapping[int, object]
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Add an update; return the groups of its old key and of its new values."""
        self._begin(b"U" + oid + b"O")
        key: dict[int, int] = {}
        values: dict[int, int] = {}
        for at in range(len(self._seen)):
            if at not in kinds:
                self._any(at)
                continue
            # the whole old value with its length, to compare the new one with
            self._parts.append(b"(?P<old%d>" % at)
            self._groups += 1
            if at in rows.key_places:
                key[at] = self._value(at)
            else:
                self._any(at, null=at != rows.version)
            self._parts.append(b")")
        self._begin(b"N")
        for at, seen in enumerate(self._seen):
            # an unchanged large value may have been omitted
            left_out = b"|u" if seen.varied else b""
            if at not in kinds:
                self._parts.append(b"(?:")
                self._any(at)
                self._parts.append(left_out + b")")
            elif kinds[at] == _SAME:
                self._parts.append(b"(?:(?P=old%d)%b)" % (at, left_out))
            else:
                self._parts.append(b"(?!(?P=old%d))" % at)
                if kinds[at] == _NULL:
                    self._add(b"n")
                else:
                    values[at] = self._value(at)
        return key, values

    def nothing(self) -> int:
        """Add an empty group, and return it."""
        self._parts.append(b"()")
        self._groups += 1
        return self._groups

    def _begin(self, head: bytes) -> None:
        """Add the beginning of a message, or of a row in it."""
        self._add(head + len(self._seen).to_bytes(2, "big"))

    def _add(self, data: bytes) -> None:
        self._parts.append(_literal(data))

    def _any(self, at: int, *, null: bool = True) -> None:
        """Add a value of a known length, or NULL, without a group to return."""
        seen = self._seen[at]
        if not seen.varied and not seen.lengths:
            self._add(b"n")
            return
        self._parts.append(b"(?:")
        if seen.varied:
            self._value(at)
        else:
            listed = [_literal(_head(n)) + _bytes(n) for n in seen.by_frequency()]
            self._parts.append(b"|".join(listed))
        self._parts.append(b"|n)" if seen.null and null else b")")

    def _value(self, at: int) -> int:
        """Add a value of a known length; return the group of its bytes after the length."""
        seen = self._seen[at]
        if seen.varied:
            # up to 1 kB: failed matches of longer values would cost more than is saved
            self._parts.append(rb"t\x00\x00([\x00-\x03].)([^\x00]*)")
            self._groups += 2
            self.checks.append((self._groups - 1, self._groups))
            return self._groups
        # an empty group records which length matched, so that one group holds the value alone
        *text, last = seen.by_frequency()
        first = self._groups + 1
        value = _bytes(last)
        for place, length in reversed(list(enumerate(text, first))):
            value = b"(?(%d)%b|%b)" % (place, _bytes(length), value)
        heads = [_literal(_head(length)) + b"()" for length in text] + [_literal(_head(last))]
        self._parts.append(b"(?:%b)(%b)" % (b"|".join(heads), value))
        self._groups = first + len(text)
        return self._groups


def _head(length: int) -> bytes:
    return b"t" + length.to_bytes(4, "big")


def _literal(data: bytes) -> bytes:
    return b"".join([b"\\x%02x" % each for each in data])


def _bytes(count: int) -> bytes:
    return b".{%d}" % count if count else b""
