"""Runs the server, at 127.0.0.1 only, until Ctrl-C; no files or processes remain."""

from __future__ import annotations

import logging
import secrets
import socket
import tempfile
import webbrowser
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

import uvicorn

from twopc.errors import ConfigurationError
from twopc.sim.explore.app import Desk, application
from twopc.sim.explore.guard import RequestGuard

_BYTES_OF_TOKEN = 24
#: Time limit for open requests when the server ends.
_END_S = 1


class ExploreServer(uvicorn.Server):
    """A server that reports when it is ready, and answers open requests when it ends.

    Args:
        ready: called when the server accepts requests.
        end_work: ends the jobs for which requests wait, so that each request is answered.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        ready: Callable[[], None],
        end_work: Callable[[], Awaitable[None]],
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._end_work = end_work

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the server and report that it is ready."""
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the server; connections cut off now are not logged as errors."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        await self._end_work()
        await super().shutdown(sockets)


def run(
    desk: Desk, *, port: int, opens: bool, tell: Callable[[str], None], shown: str = ""
) -> None:
    """Serve until Ctrl-C.

    Args:
        port: 0: any free port.
        opens: whether to open a browser.
        tell: called with the link when it can be opened.
        shown: first view of the page, as in its link: ``lesson=3``.

    Raises:
        ConfigurationError: the port is in use.
    """
    token = secrets.token_urlsafe(_BYTES_OF_TOKEN)
    with ExitStack() as stack:
        listening = stack.enter_context(_listening(port))
        link = f"http://127.0.0.1:{listening.getsockname()[1]}/#token={token}"
        link += f"&{shown}" if shown else ""

        def ready() -> None:
            tell(link)
            if opens:
                _open(stack, link)

        config = uvicorn.Config(
            RequestGuard(application(desk), listening.getsockname()[1], token),
            http="h11",
            ws="none",
            loop="asyncio",
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_END_S,
        )
        try:
            ExploreServer(config, ready, desk.workers.close).run(sockets=[listening])
        except KeyboardInterrupt:
            return  # the normal end


def _listening(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
    except OSError as error:
        listening.close()
        raise ConfigurationError(
            f"port {port} of 127.0.0.1 cannot be used: {error.strerror}; choose another by --port, or none"
        ) from error
    return listening


def _open(stack: ExitStack, link: str) -> None:
    """Open the link through a file that only this user can read, as other users can see command lines."""
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="twopc-explore-"))
    page = Path(folder, "open.html")
    page.write_text(
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={link}">'
        f'<title>twopc explore</title><a href="{link}">twopc explore</a>\n',
        encoding="utf-8",
    )
    webbrowser.open(page.as_uri())
