"""Whether a slot continues the log that is stored; pure.

A slot that was dropped and created again begins later than the store ends. A distribution database that was restored
from a backup ends before the slot begins. A Publisher that was restored has another log at the same positions. In
each case transactions would be lost without an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from twopc.errors import ServerError
from twopc.lsn import lsn_text
from twopc.publisher.log_reader.ports import StorePort
from twopc.publisher.slot import gap_text

_BEGIN = b"B"


class Continuity:
    """Checks what a slot sends against what is stored, from the opening of the sessions on.

    Args:
        publisher: node name, for messages.
        begins: position of the slot: no transaction committed before is sent.

    Raises:
        ServerError: the slot begins after its limit.
    """

    def __init__(self, publisher: str, store: StorePort, begins: int) -> None:
        if begins > store.slot_limit:
            raise ServerError(gap_text(publisher, lsn_text(begins), lsn_text(store.slot_limit)))
        self._publisher = publisher
        self._awaited = store.last_seqno if begins <= store.last_seqno else 0
        """Commit LSN of the stored transaction that the slot must send again; 0: none, or it was sent."""
        self._time_us = store.last_commit_us

    def check(self, messages: Sequence[bytes], position: int) -> None:
        """Check messages in the order of the log.

        The commit time counts too: a restored Publisher that does the same work again does it at the same positions,
        with the same transaction ids.

        Args:
            position: position before which all transactions have been sent; 0 if unknown.

        Raises:
            ServerError: the slot has passed the stored transaction that it must send again.
        """
        if not self._awaited:
            return
        is_passed = position > self._awaited
        for message in messages:
            commit = int.from_bytes(message[1:9])
            if message[:1] == _BEGIN and commit >= self._awaited:
                time_us = int.from_bytes(message[9:17], signed=True)
                if (commit, time_us) == (self._awaited, self._time_us):
                    self._awaited = 0
                    return
                is_passed = True
                break
        if is_passed:
            raise other_log(self._publisher, self._awaited, "has no such transaction")


def other_log(publisher: str, stored: int, what: str) -> ServerError:
    """Return the error about a log that is not the one that is stored up to a position."""
    return ServerError(
        f"transactions of Publisher {publisher!r} are stored up to {lsn_text(stored)}, and its log {what}: it is not "
        "the one that they were read from. Was it restored from a backup? `twopc unsubscribe` all Subscribers, empty "
        "their tables, and subscribe them again"
    )
