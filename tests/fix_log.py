"""A context that restores the loggers of the process."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loggers_restored() -> Iterator[None]:
    """Restore the handlers and levels that `twopc.log.configure` sets."""
    handlers = logging.root.handlers
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in ("", "twopc")}
    try:
        yield
    finally:
        logging.root.handlers = handlers
        for logger, level in levels.items():
            logger.setLevel(level)
