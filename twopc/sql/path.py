"""Settings of our own sessions: search path, representation of values, and timeouts.

An unqualified name refers to the best-matching operator or function in any schema of the path: a role that may
create objects in one of them can have its code run by other roles' sessions. Likewise, settings of a server, a
database, a role or the environment must not change the text of values, nor end a session.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final, LiteralString

from psycopg import conninfo

from twopc.sql.catalog_texts import PRINTED

PATH: LiteralString = "pg_catalog, pg_temp"
#: Settings by which values are printed and read.
VALUES: Final[dict[str, str]] = PRINTED | {
    "array_nulls": "on",
    "xmloption": "content",
    "client_encoding": "UTF8",
}
#: Settings that could end or block a session that runs for long, or writes.
LASTING: Final[dict[str, str]] = {
    "statement_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
}


#: Parameters of connections that may wait for the server without end: it is missed 25 s after its machine is gone. There
#: is no limit for data that are not acknowledged, since a busy server may leave a large batch unread for long.
KEEPALIVE: Final[dict[str, str]] = {
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
}


def _set(settings: Mapping[str, str], how: str = "set") -> LiteralString:
    text: LiteralString = "; ".join(f"{how} {name} = '{value}'" for name, value in settings.items())  # type: ignore[assignment, unused-ignore] # names and values are the constants above
    return text


SET: LiteralString = f"set search_path = {PATH}; {_set(VALUES | LASTING)}"
"""Statements for a connection that must be checked before settings are changed, because it might lead through a
pooler.
"""
SET_LOCAL: LiteralString = f"set local search_path = {PATH}; {_set(PRINTED, 'set local')}"
"""Statements for a transaction of a session that is not ours."""
FOR_VALUES: LiteralString = f"set search_path = {PATH}; {_set(VALUES)}"
"""Statements for a session, or a transaction, that compares values."""
READ_LOCAL: LiteralString = _set(VALUES, "set local")
"""Statements for a transaction that reads values printed by another server, with a search path of its own."""


def options(
    dsn: str, settings: Mapping[str, str] = VALUES | LASTING, *, path: LiteralString | None = PATH
) -> str:
    """Return the `options` with which to connect: those given, followed by ours.

    RESET ALL restores these settings, and they override settings of the role or the database.

    Args:
        settings: settings besides the search path.
        path: search path; None to keep the default, by which an administrator's own statements find their objects.
    """
    given = conninfo.conninfo_to_dict(dsn).get("options", os.environ.get("PGOPTIONS"))
    merged = dict(settings) if path is None else {"search_path": path} | dict(settings)
    words = [f"-c {name}={value}".replace(", ", ",") for name, value in merged.items()]
    escaped = [word[:3] + word[3:].replace(" ", r"\ ") for word in words]
    return " ".join([str(given or ""), *escaped]).strip()


def kept_alive(dsn: str) -> str:
    """Return the connection string with `KEEPALIVE`, except for parameters that it contains."""
    given = conninfo.conninfo_to_dict(dsn)
    return conninfo.make_conninfo(dsn, **{k: v for k, v in KEEPALIVE.items() if k not in given})
