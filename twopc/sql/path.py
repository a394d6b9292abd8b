"""The search path of sessions that are ours alone: nothing that a user creates is taken for PostgreSQL's.

Unqualified names find the operator or function whose parameters fit best, in whichever schema of the path: a
role that may create objects in one of them has its code run by whoever looks there.
"""

from __future__ import annotations

import os
from typing import LiteralString

from psycopg import conninfo

PATH: LiteralString = "pg_catalog, pg_temp"
SET: LiteralString = f"set search_path = {PATH}"
"""For a connection that has to be looked at before anything is set: it might lead through a pooler."""
SET_LOCAL: LiteralString = f"set local search_path = {PATH}"
"""For a transaction of a session that is not ours."""


def options(dsn: str) -> str:
    """The `options` with which to connect: those given, and on top of them our path.

    RESET ALL goes back to it, and it wins over what the role or the database has set.
    """
    given = conninfo.conninfo_to_dict(dsn).get("options", os.environ.get("PGOPTIONS"))
    return f"{given or ''} -c search_path={PATH.replace(' ', '')}".lstrip()
