"""Reader of the messages of PostgreSQL's output plugin `pgoutput`: protocol 1, values as text.

This module performs no I/O: it turns bytes into values, and knows neither their origin nor their use. Every change
of every transaction passes through it, so its values are plain tuples and bytes.

Source: PostgreSQL's documentation, "Logical Replication Message Formats".
"""

from __future__ import annotations

from functools import partial
from struct import Struct, error
from typing import Final, NamedTuple, TypeVar

from twopc.errors import RemoteProtocolError

#: Protocol version that the decoder reads; with it a global transaction appears once, at COMMIT PREPARED.
PROTOCOL = 1

#: Stands for a value that did not change and is too large to be in the log with its row
#: (TOAST); known by identity. Never in a row whose table has REPLICA IDENTITY FULL.
UNCHANGED: Final = bytes(bytearray(b"(unchanged)"))

Values = list[bytes | None]
"""Values of a row as text, in the order of `RelationMessage.columns`; None is NULL."""


class RelationColumn(NamedTuple):
    """A column of a relation as it is in the log."""

    name: str
    type_oid: int
    typmod: int
    is_key: bool
    """Whether the column is part of the replica identity."""


class RelationMessage(NamedTuple):
    """Description of a relation, sent before its first row, and again after ALTER TABLE."""

    oid: int
    schema: str
    name: str
    replica_identity: str
    """Value of ``pg_class.relreplident``: ``d`` default, ``n`` nothing, ``f`` full, ``i`` index."""
    columns: tuple[RelationColumn, ...]


class BeginMessage(NamedTuple):
    """Begin of a transaction."""

    lsn: int
    """LSN of the commit record, as in the transaction's `CommitMessage`."""
    time_us: int
    """Time of the commit, in microseconds since 2000-01-01 00:00 UTC."""
    xid: int
    """Low 32 bits of the transaction id."""


class CommitMessage(NamedTuple):
    """End of a transaction."""

    lsn: int
    """LSN of the commit record."""
    end_lsn: int
    """End of the commit record: a slot that is advanced to this LSN does not return the transaction again."""
    time_us: int


class RowMessage(NamedTuple):
    """Change of one row."""

    relation: RelationMessage
    operation: str
    """``ins``, ``upd`` or ``del``."""
    old: Values | None
    """Row before the change; None for an insert, and for an update that left the replica identity alone."""
    new: Values | None
    """Row after the change; None for a delete. Unchanged large values are taken from `old` if it has them, and are
    `UNCHANGED` otherwise.
    """
    old_is_key: bool
    """Whether `old` holds the replica identity only; its other values are then None."""


class TruncateMessage(NamedTuple):
    """TRUNCATE of tables."""

    relations: tuple[RelationMessage, ...]
    cascade: bool
    restart_identity: bool


class LogicalMessage(NamedTuple):
    """Message written by `pg_logical_emit_message`."""

    transactional: bool
    """False for a message outside of transactions, which is not rolled back with the transaction that wrote it."""
    lsn: int
    prefix: str
    content: bytes


class OriginMessage(NamedTuple):
    """Replication origin of the session that committed the transaction."""

    lsn: int
    """LSN of the commit at the origin."""
    name: str


class TypeMessage(NamedTuple):
    """Description of a type that a following relation uses."""

    oid: int
    schema: str
    name: str


Decoded = (
    BeginMessage
    | CommitMessage
    | RowMessage
    | TruncateMessage
    | LogicalMessage
    | OriginMessage
    | TypeMessage
    | RelationMessage
)

_begin = Struct("!xqqI").unpack
_commit = Struct("!xxqqq").unpack
_oid = Struct("!xI").unpack_from
_oid_kind_count = Struct("!xIcH").unpack_from
_kind_count = Struct("!cH").unpack_from
_length = Struct("!I").unpack_from
_column = Struct("!Ii").unpack_from
_count16 = Struct("!H").unpack_from
_truncate = Struct("!xIB").unpack_from
_message = Struct("!xBq").unpack_from
_lsn = Struct("!xq").unpack_from

#: Named tuples made without their `__new__`, which costs as much again.
_change = partial(tuple.__new__, RowMessage)
_made_begin = partial(tuple.__new__, BeginMessage)
_made_commit = partial(tuple.__new__, CommitMessage)

_TEXT, _NULL, _TOAST = b"tnu"
_T = TypeVar("_T")


class Decoder:
    """Decodes the messages of a session in order, and keeps the relations that were announced.

    A new session announces relations again before it refers to them. A relation that is announced unchanged remains
    the same object, so that values derived from it can be kept with it.
    """

    __slots__ = ("_relations",)

    def __init__(self) -> None:
        self._relations: dict[int, RelationMessage] = {}

    def decode(self, data: bytes) -> Decoded:
        """Return the message in `data`, which holds exactly one message.

        Raises:
            RemoteProtocolError: the message is not of protocol 1, is cut short, or refers to a relation that was
                not announced.
        """
        try:
            match data[0]:
                case 66:  # B
                    return _made_begin(_begin(data))
                case 67:  # C
                    return _made_commit(_commit(data))
                case 73:  # I
                    return self._insert(data)
                case 85:  # U
                    return self._update(data)
                case 68:  # D
                    return self._delete(data)
                case 82:  # R
                    return self._relation(data)
                case 84:  # T
                    return self._truncate(data)
                case 77:  # M
                    return _read_message(data)
                case 79:  # O
                    (lsn,) = _lsn(data)
                    name, end = _string(data, 9)
                    return _whole(OriginMessage(lsn, name), data, end)
                case 89:  # Y
                    (oid,) = _oid(data)
                    schema, at = _string(data, 5)
                    name, at = _string(data, at)
                    return _whole(TypeMessage(oid, schema, name), data, at)
        except (error, IndexError, ValueError) as reason:
            raise RemoteProtocolError(
                f"pgoutput: a message of {len(data)} bytes that begins with {data[:32]!r} cannot be "
                f"read: {reason}"
            ) from None
        except KeyError as reason:
            raise RemoteProtocolError(
                f"pgoutput: a change of relation {reason} came before its description"
            ) from None
        raise RemoteProtocolError(
            f"pgoutput: message {data[:1]!r} is none of protocol {PROTOCOL}: is the slot two-phase, or "
            "streaming on?"
        )

    def _insert(self, data: bytes) -> RowMessage:
        oid, kind, count = _oid_kind_count(data)
        if kind != b"N":
            raise ValueError(f"an insert with the row {kind!r}")
        new, at, _ = _row(data, 8, count)
        if at != len(data):
            raise ValueError(f"{len(data) - at} bytes too many")
        return _change((self._relations[oid], "ins", None, new, False))

    def _update(self, data: bytes) -> RowMessage:
        oid, kind, count = _oid_kind_count(data)
        old: Values | None = None
        at = 8
        old_is_key = False
        if kind != b"N":
            if kind not in (b"K", b"O"):
                raise ValueError(f"an update with the row {kind!r}")
            old_is_key = kind == b"K"
            old, at, _ = _row(data, at, count)
            kind, count = _kind_count(data, at)
            at += 3
            if kind != b"N":
                raise ValueError(f"an update without its new row, but {kind!r}")
        new, at, lacks = _row(data, at, count)
        if at != len(data):
            raise ValueError(f"{len(data) - at} bytes too many")
        if lacks and old is not None and not old_is_key:
            new = [o if n is UNCHANGED else n for o, n in zip(old, new, strict=True)]
        return _change((self._relations[oid], "upd", old, new, old_is_key))

    def _delete(self, data: bytes) -> RowMessage:
        oid, kind, count = _oid_kind_count(data)
        if kind not in (b"K", b"O"):
            raise ValueError(f"a delete with the row {kind!r}")
        old, at, _ = _row(data, 8, count)
        if at != len(data):
            raise ValueError(f"{len(data) - at} bytes too many")
        return _change((self._relations[oid], "del", old, None, kind == b"K"))

    def _relation(self, data: bytes) -> RelationMessage:
        (oid,) = _oid(data)
        schema, at = _string(data, 5)
        name, at = _string(data, at)
        identity = chr(data[at])
        (count,) = _count16(data, at + 1)
        at += 3
        columns = []
        for _ in range(count):
            flags = data[at]
            column, at = _string(data, at + 1)
            type_oid, typmod = _column(data, at)
            at += 8
            columns.append(RelationColumn(column, type_oid, typmod, bool(flags & 1)))
        # PostgreSQL leaves its own schema's name out
        result = RelationMessage(oid, schema or "pg_catalog", name, identity, tuple(columns))
        known = self._relations.get(oid)
        if result == known:
            result = known
        self._relations[oid] = _whole(result, data, at)
        return result

    def _truncate(self, data: bytes) -> TruncateMessage:
        count, options = _truncate(data)
        oids = [_length(data, 6 + 4 * place)[0] for place in range(count)]
        relations = tuple([self._relations[oid] for oid in oids])
        result = TruncateMessage(relations, bool(options & 1), bool(options & 2))
        return _whole(result, data, 6 + 4 * count)


def _row(data: bytes, at: int, count: int) -> tuple[Values, int, bool]:
    """Return the values of a row that begins at `at`, the position after it, and whether some values are
    `UNCHANGED`.
    """
    values: Values = []
    lacks = False
    append = values.append
    for _ in range(count):
        kind = data[at]
        if kind == _TEXT:
            start = at + 5
            at = start + _length(data, at + 1)[0]
            append(data[start:at])
        elif kind == _NULL:
            append(None)
            at += 1
        elif kind == _TOAST:
            append(UNCHANGED)
            lacks = True
            at += 1
        else:
            raise ValueError(f"a value of the kind {chr(kind)!r}; the slot is to be read as text")
    if at > len(data):
        raise ValueError(f"{at - len(data)} bytes are missing")
    return values, at, lacks


def _string(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _read_message(data: bytes) -> LogicalMessage:
    flags, lsn = _message(data)
    prefix, at = _string(data, 10)
    (length,) = _length(data, at)
    content = data[at + 4 : at + 4 + length]
    return _whole(LogicalMessage(bool(flags & 1), lsn, prefix, content), data, at + 4 + length)


def _whole(result: _T, data: bytes, end: int) -> _T:
    if end != len(data):
        raise ValueError(f"{len(data)} bytes instead of {end}")
    return result
