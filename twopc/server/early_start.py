"""A server that starts while its user does something else.

It must not know which server, nor what for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

from twopc.server.embedded_server import EmbeddedServer
from twopc.server.external import ExternalServer

AnyServer = TypeVar("AnyServer", bound=EmbeddedServer | ExternalServer)


async def start_in_thread(start: Callable[[], AnyServer]) -> AnyServer:
    """Start a server beside the event loop; whoever waits for it stops it.

    A thread cannot be cancelled: if the task is, the server is stopped as soon as it has started, for nobody else
    knows of it.

    Raises:
        ServerError: it could not be started.
    """
    pool = ThreadPoolExecutor(1)
    server = pool.submit(start)
    pool.shutdown(wait=False)  # its thread ends with its work
    try:
        return await asyncio.wrap_future(server)
    except asyncio.CancelledError:
        server.add_done_callback(_stop)
        raise


def _stop(server: Future[AnyServer]) -> None:
    with suppress(Exception):  # nobody wants it: why it did not start is nobody's concern
        server.result().stop()


class ServerAhead:
    """Starts a server in a thread; a context manager, which stops the server if nobody has taken it."""

    def __init__(self, start: Callable[[], EmbeddedServer | ExternalServer]) -> None:
        self._start = start
        self._pool = ThreadPoolExecutor(1)
        self._server: Future[EmbeddedServer | ExternalServer] | None = None

    def take(self) -> EmbeddedServer | ExternalServer:
        """The server, which the caller stops; waits until it accepts connections.

        Raises:
            ServerError: it could not be started.
        """
        assert self._server is not None, "it is taken once, within the block"
        server, self._server = self._server, None
        return server.result()

    def __enter__(self) -> Self:
        self._server = self._pool.submit(self._start)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._server is not None:
            _stop(self._server)
        self._pool.shutdown()
