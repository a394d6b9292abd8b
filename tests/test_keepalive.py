"""Tests that processes which wait for a server without end notice that its machine is gone."""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from psycopg import AsyncConnection, conninfo

from tests.fix_server import Database
from twopc.drivers.participant import ParticipantAddress
from twopc.drivers.resolver_servers import ResolverSite, SubscriberServer
from twopc.publisher.log_reader.session import connect
from twopc.sql.path import KEEPALIVE, kept_alive
from twopc.subscriber.distribution_agent.pipe import Pipe

pytestmark = pytest.mark.skipif(
    not hasattr(socket, "TCP_KEEPIDLE"), reason="the system has no such option"
)


async def _log_reader(dsn: str) -> AsyncConnection[Any]:
    return await connect(dsn, "log reader")


async def _agent(dsn: str) -> Pipe:
    return await Pipe.connect(dsn)


async def _resolver(dsn: str) -> AsyncConnection[Any]:
    end = ParticipantAddress(name="sub", dsn=dsn, application_dsn=dsn)
    site = ResolverSite(
        coordinator="c",
        publisher=end,
        subscriber=end,
        distribution=dsn,
        link_role="l",
        channel="c",
    )
    return await SubscriberServer(site).connect()


@pytest.mark.parametrize("opened", [_log_reader, _agent, _resolver])
async def test_a_silent_server_is_asked(
    fresh_database: Database, opened: Callable[[str], Awaitable[AsyncConnection[Any] | Pipe]]
) -> None:
    """Sessions that may be silent for hours have probes sent by TCP, by default after ten seconds."""
    dsn = fresh_database.server.dsn(fresh_database.name, tcp=True)
    for given, expected in ((dsn, 10), (f"{dsn} keepalives_idle=77", 77)):
        connection = await opened(given)
        with socket.socket(fileno=os.dup(connection.pgconn.socket)) as wire:
            assert wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == expected
        await connection.close()


def test_a_uri_keeps_its_parts() -> None:
    found = conninfo.conninfo_to_dict(kept_alive("postgresql://a:b%20c@h:1,i:2/d?keepalives=0"))
    assert found == {
        **KEEPALIVE,
        "user": "a",
        "password": "b c",
        "host": "h,i",
        "port": "1,2",
        "dbname": "d",
        "keepalives": "0",
    }
