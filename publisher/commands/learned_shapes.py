"""Regular expressions that read a change of a shape that was met before, and the command in one pass.

Values carry their length before them, which no regular expression can follow; but the lengths that a column
has had can be listed, each with so many bytes behind it. What matches is therefore read exactly as the decoder
reads it. A column with too many lengths takes whatever is not a NUL (which no value of PostgreSQL has), and its
length is compared afterwards. What does not match is for the decoder.

Pure; knows nothing of when shapes are learned or given up.
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

#: So many lengths of a column are listed, of one byte; a longer list costs more than it saves.
_LENGTHS_MAX = 16
#: What an article's column becomes in a command.
_SAME, _NULL, _VALUE = range(3)

Shape = tuple[object, ...]
"""What the messages that one expression reads have in common, besides lengths that were seen."""


class ColumnSample:
    """What the values of one column looked like."""

    __slots__ = ("lengths", "null", "varied")

    def __init__(self) -> None:
        self.lengths: dict[int, int] = {}
        """How often each was met."""
        self.null = False
        self.varied = False
        """Too many lengths to list."""

    def by_frequency(self) -> list[int]:
        """The lengths, the most frequent one first."""
        return sorted(self.lengths, key=self.lengths.__getitem__, reverse=True)

    def add(self, value: bytes | None) -> None:
        """One more value was met."""
        if value is None:
            self.null = True
        elif not self.varied:
            length = len(value)
            self.lengths[length] = self.lengths.get(length, 0) + 1
            if length > 0xFF or len(self.lengths) > _LENGTHS_MAX:
                self.varied = True
                self.lengths.clear()


class Tally:
    """How many messages were read."""

    __slots__ = ("hits",)

    def __init__(self) -> None:
        self.hits = 0


Read = Callable[[bytes], Command | None]
"""From a message to its command; None: it has another shape, or is not for an expression."""


def shape_of(rows: LoggedRows, change: RowMessage) -> Shape | None:
    """None: rare, or not for an expression; so are quotes and backslashes (34 and 92) in what is sent."""
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
    tally: Tally,
) -> Read:
    """What reads messages of this shape.

    Args:
        oid: of the relation, as it stands in messages.
        seen: by the relation's columns.
    """
    made, keys = _PatternBuilder(seen), rows.key_places
    known: Sequence[int]
    if operation == "del":
        old = made.deleted(oid, rows, bool(shape[0]))
        groups = [old[at] for at in keys]
        known = range(len(keys))
        fields = [b'"%b"'] * len(keys)
    else:
        places = rows.value_places
        kinds = dict(zip(places, shape, strict=True))
        valued = [at for at in places if kinds[at] == _VALUE]
        fields = [b'"%b"' if kind == _VALUE else b"" for kind in shape]
        if operation == "ins":
            new = made.inserted(oid, kinds)
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
        groups.append(made.nothing())  # the groups of a match are a tuple only if there are several
        text += b"%b"
    return _read(
        rows,
        TYPE_OF[operation],
        match=made.match(),
        checks=tuple(made.checks),
        taken=tuple(groups),
        known=tuple(known),
        text=text,
        tally=tally,
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
    tally: Tally,
) -> Read:
    """Puts an expression to use.

    Args:
        checks: groups that hold a length and the value that must have it.
        taken: groups whose values go into the text.
        known: where the key is among them.
        text: with a place for each of them.
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
        # 34 and 92 are a quote and a backslash; found in the message, they may yet be in other values or lengths
        if (34 in data or 92 in data) and (made.count(34) != quotes or made.count(92) != slashes):
            return None
        tally.hits += 1
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
        tally.hits += 1
        key = b"\0".join([values[place] for place in known])
        return (article, code, crc32(key) % streams + first, made)

    return composed


def _fit(result: re.Match[bytes], checks: Sequence[tuple[int, int]]) -> bool:
    """Values are as long as they should be; those that are NULL have no groups."""
    for length, value in checks:
        if result[value] is not None and int.from_bytes(result[length], "big") != len(
            result[value]
        ):
            return False
    return True


class _PatternBuilder:
    """An expression in the making. Methods return groups, by the relation's columns."""

    def __init__(self, seen: Sequence[ColumnSample]) -> None:
        self._seen = seen
        self._parts: list[bytes] = []
        self._groups = 0
        self.checks: list[tuple[int, int]] = []

    def match(self) -> Callable[[bytes], re.Match[bytes] | None]:
        """What is made."""
        return re.compile(b"".join(self._parts), re.DOTALL).fullmatch

    def inserted(self, oid: bytes, kinds: Mapping[int, object]) -> dict[int, int]:
        """Of the values."""
        self._begin(b"I" + oid + b"N")
        values: dict[int, int] = {}
        for at in range(len(self._seen)):
            if at not in kinds:
                self._any(at)
            elif kinds[at] == _NULL:
                self._add(b"n")
            else:
                values[at] = self._value(at)
        return values

    def deleted(self, oid: bytes, rows: LoggedRows, is_key: bool) -> dict[int, int]:
        """Of the key."""
        self._begin(b"D" + oid + (b"K" if is_key else b"O"))
        key: dict[int, int] = {}
        for at in range(len(self._seen)):
            if at in rows.key_places:
                key[at] = self._value(at)
            else:
                self._any(at)
        return key

    def updated(
        self, oid: bytes, rows: LoggedRows, kinds: Mapping[int, object]
    ) -> tuple[dict[int, int], dict[int, int]]:
        """Of the old key, and of the new values."""
        self._begin(b"U" + oid + b"O")
        key: dict[int, int] = {}
        values: dict[int, int] = {}
        for at in range(len(self._seen)):
            if at not in kinds:
                self._any(at)
                continue
            # all of the old value, its length included, for the new one to be compared with
            self._open(b"old%d" % at)
            if at in rows.key_places:
                key[at] = self._value(at)
            else:
                self._any(at, null=at != rows.version)
            self._parts.append(b")")
        self._begin(b"N")
        for at, seen in enumerate(self._seen):
            # a large value that did not change may have been left out
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
        """A group of no bytes."""
        self._parts.append(b"()")
        self._groups += 1
        return self._groups

    def _begin(self, head: bytes) -> None:
        """A message, or the row in it."""
        self._add(head + len(self._seen).to_bytes(2, "big"))

    def _add(self, data: bytes) -> None:
        self._parts.append(_literal(data))

    def _open(self, name: bytes) -> None:
        self._parts.append(b"(?P<%b>" % name)
        self._groups += 1

    def _any(self, at: int, *, null: bool = True) -> None:
        """A value as it was seen, or NULL."""
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
        """A value as it was seen: the group of what is behind its length."""
        seen = self._seen[at]
        if seen.varied:
            # up to 1 kB: a longer one costs more when it is searched in vain than can be saved
            self._parts.append(rb"t\x00\x00([\x00-\x03].)([^\x00]*)")
            self._groups += 2
            self.checks.append((self._groups - 1, self._groups))
            return self._groups
        # which length it was is kept in an empty group, so that the value alone is in a group of its own
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
