"""Leaves the loggers of the process as they were."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def loggers_restored() -> Iterator[None]:
    """Afterwards the handlers and levels that `twopc.log.configure` sets are as before."""
    handlers = logging.root.handlers
    levels = {logging.getLogger(name): logging.getLogger(name).level for name in ("", "twopc")}
    try:
        yield
    finally:
        logging.root.handlers = handlers
        for logger, level in levels.items():
            logger.setLevel(level)
