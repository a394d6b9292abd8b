"""Messages of `pgoutput` as the server would write them: the inverse of `twopc.publisher.pgoutput`."""

from __future__ import annotations

from collections.abc import Sequence
from struct import pack

from twopc.publisher.pgoutput import (
    UNCHANGED,
    BeginMessage,
    CommitMessage,
    Decoded,
    LogicalMessage,
    OriginMessage,
    RelationMessage,
    RowMessage,
    TruncateMessage,
    TypeMessage,
    Values,
)


def encode(message: Decoded, sent: Values | None = None) -> bytes:
    """Return the message as bytes.

    Args:
        sent: the new row as it is in the message, where unchanged values are not filled in.
    """
    match message:
        case BeginMessage(lsn, time_us, xid):
            return b"B" + pack("!qqI", lsn, time_us, xid)
        case CommitMessage(lsn, end_lsn, time_us):
            return b"C" + pack("!Bqqq", 0, lsn, end_lsn, time_us)
        case RelationMessage():
            columns = b"".join(
                pack("!B", column.is_key)
                + _string(column.name)
                + pack("!Ii", column.type_oid, column.typmod)
                for column in message.columns
            )
            schema = "" if message.schema == "pg_catalog" else message.schema
            head = pack("!I", message.oid) + _string(schema) + _string(message.name)
            identity = message.replica_identity.encode()
            return b"R" + head + identity + pack("!H", len(message.columns)) + columns
        case RowMessage(relation, operation, old, new, old_is_key):
            before = b"" if old is None else (b"K" if old_is_key else b"O") + row(old)
            after = b"" if new is None else b"N" + row(new if sent is None else sent)
            kind = {"ins": b"I", "upd": b"U", "del": b"D"}[operation]
            return kind + pack("!I", relation.oid) + before + after
        case TruncateMessage(relations, cascade, restart):
            oids = b"".join(pack("!I", relation.oid) for relation in relations)
            return b"T" + pack("!IB", len(relations), cascade + 2 * restart) + oids
        case LogicalMessage(transactional, lsn, prefix, content):
            head = pack("!Bq", transactional, lsn) + _string(prefix)
            return b"M" + head + pack("!I", len(content)) + content
        case OriginMessage(lsn, name):
            return b"O" + pack("!q", lsn) + _string(name)
        case TypeMessage(oid, schema, name):
            return b"Y" + pack("!I", oid) + _string(schema) + _string(name)


def row(values: Sequence[bytes | None]) -> bytes:
    """Return a row's values as bytes."""
    parts = [pack("!H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value is UNCHANGED:
            parts.append(b"u")
        else:
            parts.append(b"t" + pack("!I", len(value)) + value)
    return b"".join(parts)


def _string(text: str) -> bytes:
    return text.encode() + b"\0"
