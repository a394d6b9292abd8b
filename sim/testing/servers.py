"""The server that tests use: a server started for them, or an external one.

Independent of pytest, and of the use of the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import conninfo

from twopc.errors import ServerError
from twopc.server import EmbeddedServer as EmbeddedServer
from twopc.server import ExternalServer
from twopc.sim.topology.leftovers import KEPT, sweep

__all__ = ["KEPT", "AnyServer", "Server", "check", "server_of", "sweep"]

AnyServer = EmbeddedServer | ExternalServer

#: Number of prepared branches per node for which a server must have room.
_PREPARED_PER_NODE = 10
_SETTINGS = """
select current_setting('max_prepared_transactions')::integer, current_setting('wal_level'),
       current_setting('max_replication_slots')::integer, current_setting('max_wal_senders')::integer
"""


@dataclass(frozen=True, slots=True)
class Server:
    """An external server, for the `twopc_server` fixture."""

    dsn: str = field(repr=False)
    """Connection string of a role that may create databases and roles, to any database of the server."""


def server_of(given: Any) -> AnyServer:
    """Return the server for the value of the `twopc_server` fixture.

    Args:
        given: a `Server`, a DSN or URL, a server of `twopc.server`, a process of pytest-postgresql (which has host,
            port and user) or a container of testcontainers.

    Raises:
        ServerError: the value is none of these.
    """
    if isinstance(given, EmbeddedServer | ExternalServer):
        return given
    if isinstance(given, str):
        return ExternalServer.from_dsn(given)
    if isinstance(given, Server):
        return ExternalServer.from_dsn(given.dsn)
    if hasattr(given, "get_connection_url"):
        return ExternalServer.from_dsn(given.get_connection_url())
    parts = {key: getattr(given, key, None) for key in ("host", "port", "user", "password")}
    if parts["host"] and parts["port"]:
        return ExternalServer.from_dsn(
            conninfo.make_conninfo(
                dbname="postgres", **{key: str(value) for key, value in parts.items() if value}
            )
        )
    raise ServerError(
        f"twopc_server gave {type(given).__name__}, which is no server: return twopc.sim.testing.Server(dsn=...), "
        "a DSN, the postgresql_proc of pytest-postgresql, or a container of testcontainers"
    )


def check(server: AnyServer, *, topologies: int, nodes: int) -> None:
    """Check that an external server has room for tests.

    Raises:
        ServerError: it does not; the message contains the commands that correct it.
    """
    if isinstance(server, EmbeddedServer):
        return  # embedded servers are configured for tests
    requested = topologies * nodes * _PREPARED_PER_NODE
    try:
        with psycopg.connect(server.conninfo, autocommit=True) as connection:
            row = connection.execute(_SETTINGS).fetchone()
    except psycopg.OperationalError as error:
        raise ServerError(
            f"the server at {server.where} cannot be reached: {str(error).strip()}. Name another one "
            "(--twopc-pg URL), or name none and have one started"
        ) from None
    assert row is not None
    prepared, level, slots, senders = row
    lines: Mapping[str, bool] = {
        f"ALTER SYSTEM SET max_prepared_transactions = {requested};": prepared < requested,
        "ALTER SYSTEM SET wal_level = logical;": level != "logical",
        f"ALTER SYSTEM SET max_replication_slots = {topologies + 2};": slots < topologies,
        f"ALTER SYSTEM SET max_wal_senders = {topologies + 2};": senders < topologies,
    }
    missing = [line for line, lacks in lines.items() if lacks]
    if missing:
        raise ServerError(
            f"the server at {server.where} is not set up for two-phase commit tests "
            f"(max_prepared_transactions is {prepared}, wal_level {level}). As a superuser: "
            + " ".join(missing)
            + " -- and restart it"
        )
