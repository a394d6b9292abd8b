"""Rows of the distribution tables as COPY's binary format has them.

Pure. A command's row is put together from pieces, of which the greater part is made once.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

HEADER: Final = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER: Final = b"\xff\xff"

COMMANDS = (
    "msrepl.msrepl_commands (publisher_database_id, xact_seqno, command_id, article_id, type, "
    "originator_id, hashkey, command)"
)
TRANSACTIONS = (
    "msrepl.msrepl_transactions (publisher_database_id, xact_seqno, xact_id, entry_time, originator_id, "
    "marks, commands, bytes)"
)

_head = Struct("!hiiiq").pack
_article = Struct("!iiii").pack
_field = Struct("!ii").pack
_transaction = Struct("!hiiiqiqiq").pack
_counts = Struct("!iiiiiq").pack
_NULL: Final = b"\xff\xff\xff\xff"

#: The four bytes before a text that say how long it is.
text_length = Struct("!i").pack


def command_head(publisher: int, seqno: int) -> bytes:
    """What the rows of one transaction begin with."""
    return _head(8, 4, publisher, 8, seqno)


#: Of a command's number in its transaction: call it with 4 and the number.
command_number = _field


def command_middle(article: int, kind: int, originator: int | None, hashkey: int) -> bytes:
    """What stands between a command's number and its text."""
    return _article(4, article, 4, kind) + _or_null(originator) + _field(4, hashkey)


def transaction_row(
    publisher: int,
    *,
    seqno: int,
    xid: int,
    time_us: int,
    originator: int | None,
    marks: int,
    commands: int,
    length: int,
) -> bytes:
    """A row of msrepl_transactions."""
    return (
        _transaction(8, 4, publisher, 8, seqno, 8, xid, 8, time_us)
        + _or_null(originator)
        + _counts(4, marks, 4, commands, 8, length)
    )


def _or_null(number: int | None) -> bytes:
    return _NULL if number is None else _field(4, number)
