"""What a coordinator process proves to participants: that a global transaction is its own.

The settings and the gid of a transaction are for anybody to change or to see. So a process tells each Subscriber a
key that nobody else gets (``msrepl.introduce_coordinator``), and every transaction carries two proofs made with
it: that of its *begin* goes into the transaction's settings, where the application may read it; that of the *vote*
goes out with the question for the votes, and not before. Other sessions of the application's role can read either
in ``pg_stat_activity``, so both hold for one session. ``sql/is_proven.sql`` examines them.
"""

from __future__ import annotations

import hashlib
import secrets

_KEY_BYTES = 32
_ID_BYTES = 8


class Key:
    """The key of one coordinator process; it is nowhere but in its memory and at the Subscribers."""

    __slots__ = ("_key", "key_id")

    def __init__(self) -> None:
        self._key = secrets.token_bytes(_KEY_BYTES)
        self.key_id = secrets.token_hex(_ID_BYTES)
        """By which a participant finds the key; no secret."""

    def introduction(self, coordinator: str, epoch: int) -> tuple[str, str, int, bytes]:
        """The arguments of ``msrepl.introduce_coordinator``."""
        return self.key_id, coordinator, epoch, self._key

    def prove(self, what: str, gid: str, pid: int) -> str:
        """A proof; `what` is ``begin``, or ``vote`` and all branches, `gid` the global transaction's id, `pid` that of its session."""
        key = self._key
        return f"{self.key_id}.{hashlib.sha256(key + f'{what} {gid} {pid}'.encode() + key).hexdigest()}"


def no_proof(what: str, gid: str, pid: int) -> str:
    """For participants that examine none: those of the model."""
    return ""
