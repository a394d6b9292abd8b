"""Proofs by which a coordinator process shows participants that a global transaction is its own.

Any user can change a transaction's settings and see its gid. So the process gives each Subscriber a secret key
(``msrepl.introduce_coordinator``), and every transaction carries two proofs made with the key: the proof of its
*begin* is part of the transaction's settings, where the application may read it; the proof of the *vote* is sent
with the request for the votes, and not before. Other sessions of the application's role can read either in
``pg_stat_activity``, so both are valid for one session only. ``sql/is_proven.sql`` verifies them.
"""

from __future__ import annotations

import hashlib
import secrets

_KEY_BYTES = 32
_ID_BYTES = 8


class Key:
    """The key of one coordinator process, held only in its memory and at the Subscribers."""

    __slots__ = ("_key", "key_id")

    def __init__(self) -> None:
        self._key = secrets.token_bytes(_KEY_BYTES)
        self.key_id = secrets.token_hex(_ID_BYTES)
        """Identifier by which a participant finds the key; not secret."""

    def introduction(self, coordinator: str, epoch: int) -> tuple[str, str, int, bytes]:
        """Return the arguments of ``msrepl.introduce_coordinator``."""
        return self.key_id, coordinator, epoch, self._key

    def prove(self, what: str, gid: str, pid: int) -> str:
        """Return a proof. `what` is ``begin``, or ``vote`` and all branches; `gid` is the global transaction's id,
        and `pid` that of its session.
        """
        key = self._key
        return f"{self.key_id}.{hashlib.sha256(key + f'{what} {gid} {pid}'.encode() + key).hexdigest()}"


def no_proof(what: str, gid: str, pid: int) -> str:
    """Return an empty proof, for participants of the model, which verify none."""
    return ""
