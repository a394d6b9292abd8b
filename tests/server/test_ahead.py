"""Tests of a server that starts while its user still prepares: it is taken, or stopped."""

from __future__ import annotations

import asyncio
import threading

import pytest

from twopc.errors import ServerError
from twopc.server import EmbeddedServer
from twopc.server.early_start import ServerAhead, start_in_thread
from twopc.server.polling import wait_for


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
    with ServerAhead(start):  # an error is not raised if the server is not taken
        pass


async def test_who_is_cancelled_meanwhile_leaves_none() -> None:
    begun, goes_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    started: list[EmbeddedServer] = []

    def start() -> EmbeddedServer:
        loop.call_soon_threadsafe(begun.set)
        assert goes_on.wait(60)
        started.append(EmbeddedServer.start())
        return started[0]

    waiting = asyncio.create_task(start_in_thread(start))
    await begun.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    goes_on.set()
    await asyncio.to_thread(
        wait_for,
        lambda: bool(started) and not started[0].directory.exists(),
        what="the end of the server",
        timeout_s=60,
    )
