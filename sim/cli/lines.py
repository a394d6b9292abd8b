"""Lines from standard input, read beside an event loop that goes on.

A thread would be left behind at an interrupt, so the loop watches the file itself.
"""

from __future__ import annotations

import asyncio
import os
import sys

_CHUNK = 4096


class Lines:
    """What somebody types, or what comes through a pipe, a line at a time."""

    def __init__(self, fd: int | None = None) -> None:
        self._fd = sys.stdin.fileno() if fd is None else fd
        self._rest = b""
        self._echo = not os.isatty(self._fd)

    async def next(self, prompt: str) -> str | None:
        """The next line without its end; None once there is none.

        What does not come from a terminal is printed behind the prompt, so that the output reads alike.
        """
        print(prompt, end="", flush=True)
        while b"\n" not in self._rest:
            chunk = await self._chunk()
            if not chunk:
                line, self._rest = self._rest, b""
                print()
                return line.decode(errors="replace") if line else None
            self._rest += chunk
        raw, _, self._rest = self._rest.partition(b"\n")
        line_text = raw.decode(errors="replace").rstrip("\r")
        if self._echo:
            print(line_text, flush=True)
        return line_text

    async def _chunk(self) -> bytes:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        try:
            loop.add_reader(self._fd, ready.set)
        except PermissionError:  # a plain file is always ready, and cannot be watched
            return os.read(self._fd, _CHUNK)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._fd)
        return os.read(self._fd, _CHUNK)
