"""A server that starts while its user still prepares to use it.

It must not know which server, nor what for.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Self

from twopc.server.embedded import EmbeddedServer
from twopc.server.external import ExternalServer


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
            with suppress(Exception):  # nobody wanted it: why it did not start is nobody's concern
                self._server.result().stop()
        self._pool.shutdown()
