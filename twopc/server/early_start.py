"""A server that starts while its caller does other work.

This module must not depend on the kind of server, nor on its purpose.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Self, TypeVar

from twopc.server.embedded_server import EmbeddedServer
from twopc.server.external import ExternalServer

AnyServer = TypeVar("AnyServer", bound=EmbeddedServer | ExternalServer)


async def start_in_thread(start: Callable[[], AnyServer]) -> AnyServer:
    """Start a server in a thread, without blocking the event loop; the caller stops the server.

    A thread cannot be cancelled: if the task is cancelled, the server is stopped as soon as it has started, because
    no other code refers to it.

    Raises:
        ServerError: the server could not be started.
    """
    pool = ThreadPoolExecutor(1)
    server = pool.submit(start)
    pool.shutdown(wait=False)  # the thread ends when the server has started
    try:
        return await asyncio.wrap_future(server)
    except asyncio.CancelledError:
        server.add_done_callback(_stop)
        raise


def _stop(server: Future[AnyServer]) -> None:
    with suppress(Exception):  # the server is no longer needed, so a failure to start is ignored
        server.result().stop()


class ServerAhead:
    """Context manager that starts a server in a thread, and stops the server if it was not taken."""

    def __init__(self, start: Callable[[], EmbeddedServer | ExternalServer]) -> None:
        self._start = start
        self._pool = ThreadPoolExecutor(1)
        self._server: Future[EmbeddedServer | ExternalServer] | None = None

    def take(self) -> EmbeddedServer | ExternalServer:
        """Wait until the server accepts connections, and return it; the caller stops it.

        Raises:
            ServerError: the server could not be started.
        """
        assert self._server is not None, "it is taken once, within the block"
        server, self._server = self._server, None
        return server.result()

    def __enter__(self) -> Self:
        self._server = self._pool.submit(self._start)
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            _stop(self._server)
        self._pool.shutdown()
