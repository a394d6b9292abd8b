"""A server that starts while its user still prepares: it is somebody's, or it is gone."""

from __future__ import annotations

import pytest

from twopc.errors import ServerError
from twopc.server import EmbeddedServer
from twopc.server.ahead import ServerAhead


def test_one_that_nobody_took_is_stopped() -> None:
    started: list[EmbeddedServer] = []

    def start() -> EmbeddedServer:
        started.append(EmbeddedServer.start())
        return started[0]

    with pytest.raises(LookupError), ServerAhead(start):
        raise LookupError
    assert not started[0].is_running()
    assert not started[0].directory.exists()


def test_one_that_was_taken_is_the_takers() -> None:
    with ServerAhead(EmbeddedServer.start) as ahead:
        server = ahead.take()
    try:
        assert server.is_running()
    finally:
        server.stop()


def test_who_takes_one_hears_why_it_did_not_start() -> None:
    def start() -> EmbeddedServer:
        raise ServerError("no room")

    with ServerAhead(start) as ahead, pytest.raises(ServerError, match="no room"):
        ahead.take()
    with ServerAhead(start):  # nor does anybody who did not want it
        pass
