"""Warnings that are expected where things are broken on purpose: counted instead of printed."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

#: Who says that a branch is not settled yet, and in which words; and what is said of the node that is in the way.
_LOGGERS = ("twopc.drivers.hub", "twopc.drivers.recovery", "twopc.drivers.peers")
_EVENT = "branch not settled yet"
_BESIDE = "recovery cannot reach a node"


class Unsettled(logging.Filter):
    """How often it was said that a branch is not settled yet."""

    count = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep what is something else."""
        self.count += record.msg == _EVENT
        return record.msg not in (_EVENT, _BESIDE)


@contextmanager
def unsettled() -> Iterator[Unsettled]:
    """Within the block those warnings are counted, and nobody else hears of them."""
    found = Unsettled()
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for each in loggers:
        each.addFilter(found)
    try:
        yield found
    finally:
        for each in loggers:
            each.removeFilter(found)
