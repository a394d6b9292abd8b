"""What sessions that are ours alone set: their search path, how values look, and how long they may last.

Unqualified names find the operator or function whose parameters fit best, in whichever schema of the path: a
role that may create objects in one of them has its code run by whoever looks there. What a value's text means, and
whether a session lives, must not hang on what a server, a database, a role or the environment has set either.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, LiteralString

from psycopg import conninfo

from twopc.sql.catalog_texts import PRINTED

PATH: LiteralString = "pg_catalog, pg_temp"
#: How values are printed and read.
VALUES: Final[dict[str, str]] = PRINTED | {
    "array_nulls": "on",
    "xmloption": "content",
    "client_encoding": "UTF8",
}
#: What could end or hinder a session that works for long, or writes.
LASTING: Final[dict[str, str]] = {
    "statement_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
}


def _set(settings: Mapping[str, str], how: str = "set") -> LiteralString:
    text: LiteralString = "; ".join(f"{how} {name} = '{value}'" for name, value in settings.items())  # type: ignore[assignment, unused-ignore] # names and values stand above
    return text


SET: LiteralString = f"set search_path = {PATH}; {_set(VALUES | LASTING)}"
"""For a connection that has to be looked at before anything is set: it might lead through a pooler."""
SET_LOCAL: LiteralString = f"set local search_path = {PATH}; {_set(PRINTED, 'set local')}"
"""For a transaction of a session that is not ours."""
FOR_VALUES: LiteralString = f"set search_path = {PATH}; {_set(VALUES)}"
"""For a session, or a transaction, that compares values."""
READ_LOCAL: LiteralString = _set(VALUES, "set local")
"""For a transaction that reads in what another server has printed, under a path of its own."""


def options(
    dsn: str, settings: Mapping[str, str] = VALUES | LASTING, *, path: LiteralString | None = PATH
) -> str:
    """The `options` with which to connect: those given, and on top of them ours.

    RESET ALL goes back to them, and they win over what the role or the database has set.

    Args:
        settings: besides the search path.
        path: None: where an administrator's own statements look for objects, too.
    """
    given = conninfo.conninfo_to_dict(dsn).get("options", os.environ.get("PGOPTIONS"))
    merged = dict(settings) if path is None else {"search_path": path} | dict(settings)
    words = [f"-c {name}={value}".replace(", ", ",") for name, value in merged.items()]
    escaped = [word[:3] + word[3:].replace(" ", r"\ ") for word in words]
    return " ".join([str(given or ""), *escaped]).strip()
