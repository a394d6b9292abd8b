"""SIGINT and SIGTERM, by which a user ends a command."""

from __future__ import annotations

import asyncio
import signal

_ENDING = (signal.SIGINT, signal.SIGTERM)


def ending_signals() -> list[signal.Signals]:
    """Return those of the two that are to be handled. A signal that was ignored when the process was started stays
    so, as SIGINT is in the background of a shell.
    """
    return [each for each in _ENDING if signal.getsignal(each) is not signal.SIG_IGN]


def stop_event() -> asyncio.Event:
    """Return an event that these signals set from now on, in the running event loop."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for each in ending_signals():
        loop.add_signal_handler(each, stop.set)
    return stop
