"""Statements that make PostgreSQL refuse PREPARE TRANSACTION (0A000), and what to do instead.

Reported when a scenario is read, and to the application whose commit was refused. This module must not depend on
how the statement was found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SQLSTATE: Final = "0A000"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forbidden:
    """A feature that cannot be used in a transaction that is prepared."""

    what: str
    remedy: str


LISTEN: Final = Forbidden(what="LISTEN", remedy="listen on a session of its own")
UNLISTEN: Final = Forbidden(what="UNLISTEN", remedy=LISTEN.remedy)
NOTIFY: Final = Forbidden(what="NOTIFY", remedy="notify after the commit")
TEMPORARY: Final = Forbidden(
    what="a temporary object", remedy="use an ordinary table, or make it in another transaction"
)
HOLD: Final = Forbidden(what="a cursor WITH HOLD", remedy="declare it without HOLD")
SNAPSHOT: Final = Forbidden(
    what="an exported snapshot", remedy="export it from a session that does not write"
)
FOREIGN: Final = Forbidden(
    what="a look through postgres_fdw", remedy="read the foreign table in another transaction"
)
BOTH_LOCKS: Final = Forbidden(
    what="one advisory key for session and transaction",
    remedy="take different keys, or only pg_advisory_xact_lock",
)

#: Words in PostgreSQL's error messages. If messages are translated no word matches, and no remedy is given.
_MESSAGES: Final = (
    ("temporary", TEMPORARY.remedy),
    ("NOTIFY", f"{NOTIFY.remedy}; {LISTEN.remedy}"),
    ("WITH HOLD", HOLD.remedy),
    ("snapshot", SNAPSHOT.remedy),
    ("postgres_fdw", FOREIGN.remedy),
    ("session-level and transaction-level", BOTH_LOCKS.remedy),
)


def remedy(sqlstate: str, message: str) -> str:
    """Return what to do about a server's refusal to prepare; empty for any other error."""
    if sqlstate != SQLSTATE or not message.startswith("cannot PREPARE"):
        return ""
    return next((text for words, text in _MESSAGES if words in message), "")
