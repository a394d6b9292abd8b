"""Every exception of the project, each saying whether the outcome is definite.

.. code-block:: text

    TwopcError
    ├── ConfigurationError            something is not set up; the message names object and remedy
    │   ├── ServerError               no server, too old, a setting or a right is missing
    │   ├── ArticleError              this table cannot be published with these options
    │   └── SubscriptionError         this subscription cannot be made, or is not active
    ├── ScenarioError                 the scenario file is wrong: file:line:column
    ├── DeliveryError                 a change cannot be delivered to a Subscriber
    ├── MergeError                    a merge session cannot begin or continue
    ├── ProtocolError
    │   ├── LocalProtocolError        the caller passed an event that is not allowed
    │   └── RemoteProtocolError       a participant violated the protocol
    └── TransactionError
        ├── RejectedError             refused, rolled back at every node
        │   ├── ConflictError         the row is not what the Subscriber last received
        │   ├── PublisherUnreachableError
        │   ├── LockTimeoutError      waited for a lock at one end for too long
        │   ├── DeadlockError         victim of a deadlock, possibly across servers
        │   └── VoteError             a participant could not prepare
        ├── InDoubtError              outcome unknown: ask later
        │   └── HeuristicError        a branch was finished manually: the nodes differ
        └── ResultLostError           committed at every node; its result is lost

An application needs two of them: after `RejectedError` the transaction certainly did not commit, after
`InDoubtError` it may have. An application that runs single statements (`PostgresCoordinator.run`)
needs `ResultLostError` as well.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar, Self

#: Normalised kinds of a refusal, with the SQLSTATE that carries them and the original's number.
KINDS: dict[str, tuple[str, int]] = {
    "version_mismatch": ("40001", 20515),
    "row_missing": ("40001", 20515),
    "delete_stale": ("40001", 20515),
    "insert_exists": ("23505", 20515),
    "update_exists": ("23505", 20515),
    "multiple_unique": ("23505", 20515),
    "fk_violation": ("23503", 20515),
    "not_in_partition": ("23514", 21034),
    "suppressed": ("09000", 20515),
    "serialization_failure": ("40001", 0),
    "deadlock": ("40P01", 0),
    "lock_timeout": ("55P03", 0),
    "publisher_unreachable": ("08001", 21054),
}


class TwopcError(Exception):
    """Base class of all exceptions of the project."""

    definite: ClassVar[bool] = True
    """Whether the outcome is known. A definite error means that nothing took effect, except for `ResultLostError`,
    which means that the whole transaction did.
    """


class ConfigurationError(TwopcError):
    """A required object, setting or right is missing; nothing was changed."""


class ServerError(ConfigurationError):
    """No server, a server too old, or a setting or right that is missing."""


class SlotInUseError(ServerError):
    """Another log reader reads the slot (18752)."""


class StoredMeanwhileError(ServerError):
    """Another log reader has stored transactions since this one read the stored position (18752)."""


class OutdatedError(ServerError):
    """The distribution database was installed by an earlier version."""

    SQLSTATES: ClassVar[frozenset[str]] = frozenset({"42883", "42703", "42P01"})
    """SQLSTATEs of errors about a missing table, column or function."""

    @classmethod
    def for_missing(cls, missing: str) -> Self:
        """Return the error for a server's message that names a missing table, column or function."""
        return cls(
            f"the distribution database lacks what this version needs ({missing}): if an earlier version has installed "
            "it, `twopc regenerate` a published table, which adds what is missing, and start the agents again; "
            "otherwise name the right database"
        )


class ArticleError(ConfigurationError):
    """The table cannot be published with these options."""


class SubscriptionError(ConfigurationError):
    """The subscription cannot be made, or is not active."""


class ScenarioError(TwopcError):
    """A scenario file is wrong; the message holds file:line:column."""


class DeliveryError(TwopcError):
    """An agent or the log reader cannot continue, and later transactions are not delivered.

    Earlier transactions stay delivered; no part of the transaction that failed is at the Subscriber.
    """

    def __init__(
        self,
        message: str,
        *,
        node: str = "",
        sqlstate: str = "",
        number: int = 0,
        seqno: str = "",
        command: str = "",
    ) -> None:
        super().__init__(message)
        self.node = node
        """The Subscriber; empty if the error concerns all Subscribers."""
        self.sqlstate = sqlstate
        """SQLSTATE from the database that raised the error; empty if no database answered."""
        self.number = number
        """Error number of the original (20598, 2601, 2627 ...); 0 if it has none."""
        self.seqno = seqno
        """Position of the transaction in the log, a pg_lsn; empty if the error does not concern a transaction."""
        self.command = command
        """The command that failed, in readable form; empty if unknown."""


class MergeError(TwopcError):
    """A merge session cannot begin or continue; changes already propagated stay, and the next session continues."""

    def __init__(
        self, message: str, *, node: str = "", sqlstate: str = "", number: int = 0
    ) -> None:
        super().__init__(message)
        self.node = node
        """The node that raised the error; empty if no particular node did."""
        self.sqlstate = sqlstate
        """SQLSTATE from that node; empty if no node answered."""
        self.number = number
        """Error number of the original; 0 if it has none."""


class ProtocolError(TwopcError):
    """A machine received an event that its transition table does not contain."""


class LocalProtocolError(ProtocolError):
    """The caller passed an event that is not allowed in the machine's state; the machine is unchanged."""


class RemoteProtocolError(ProtocolError):
    """A participant sent a message that the protocol does not allow; the machine is unchanged."""


class TransactionError(TwopcError):
    """A global transaction did not end as requested."""

    def __init__(
        self,
        message: str,
        *,
        gid: str = "",
        node: str = "",
        sqlstate: str = "",
        number: int = 0,
        detail: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message)
        self.gid = gid
        """The global transaction's id, without a branch; empty if none was begun."""
        self.node = node
        """The node that raised the error; empty if no particular node did."""
        self.sqlstate = sqlstate
        """SQLSTATE from that node; empty if no server answered."""
        self.number = number
        """Error number of the original (20515, 21054, ...); 0 if it has none."""
        self.detail = detail
        self.hint = hint


class RejectedError(TransactionError):
    """The transaction was refused and rolled back at every node."""

    _kind: ClassVar[str] = "error"

    @property
    def kind(self) -> str:
        """The normalised kind, one of `KINDS`; ``error`` if the error is none of them."""
        return self._kind


class ConflictError(RejectedError):
    """The Publisher's row is not what the Subscriber last received (seed 002, Conflict Detection).

    Retrying helps only after a sync, except for `serialization_failure`.
    """

    def __init__(self, message: str, *, facts: dict[str, Any] | None = None, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.facts = facts or {}
        """The Publisher's report of the conflict: article, key, both versions, its current row."""

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        return str(self.facts.get("kind", "version_mismatch"))

    @property
    def key(self) -> dict[str, Any]:
        """Key columns of the first conflicting row, as text."""
        return dict(self.facts.get("key") or {})


class PublisherUnreachableError(RejectedError):
    """The Publisher did not answer (the original's 21054); no change remains there."""

    _kind: ClassVar[str] = "publisher_unreachable"


class LockTimeoutError(RejectedError):
    """The transaction waited for a lock longer than ``lock_timeout`` at one of the ends."""

    _kind: ClassVar[str] = "lock_timeout"

    def __init__(self, message: str, *, holder: str = "", **rest: Any) -> None:
        super().__init__(message, **rest)
        self.holder = holder
        """The session that held the lock, if it was determined; the server's message does not name it."""


class DeadlockError(RejectedError):
    """The transaction was chosen as victim of a deadlock; `cycle` describes the waits, across servers too."""

    _kind: ClassVar[str] = "deadlock"

    def __init__(self, message: str, *, cycle: tuple[str, ...] = (), **rest: Any) -> None:
        super().__init__(message, **rest)
        self.cycle = cycle


class VoteError(RejectedError):
    """A participant could not prepare, and every branch was rolled back."""


class InDoubtError(TransactionError):
    """The outcome is not known yet; recovery will settle it identically at every node."""

    definite: ClassVar[bool] = False


class HeuristicError(InDoubtError):
    """A branch was finished manually against the decision: the transaction committed at one node and not at
    another. The damage is recorded; recovery cannot repair it.
    """


class ResultLostError(TransactionError):
    """The transaction committed at every node and must not be repeated, but the connection broke before the
    statement's result arrived.
    """


def conflict_facts(detail: str | None) -> dict[str, Any] | None:
    """Return the JSON object that our procedures put in DETAIL, or None if DETAIL is something else."""
    if not detail or not detail.startswith("{"):
        return None
    try:
        facts = json.loads(detail)
    except ValueError:
        return None
    return facts if isinstance(facts, dict) and "kind" in facts else None


def from_sqlstate(
    sqlstate: str,
    message: str,
    *,
    detail: str = "",
    hint: str = "",
    node: str = "",
    gid: str = "",
) -> RejectedError:
    """Return the exception for an error report of a server.

    The transaction must already be known to be rolled back: this function never returns `InDoubtError`.
    """
    rest: dict[str, Any] = {
        "gid": gid, "node": node, "sqlstate": sqlstate, "detail": detail, "hint": hint,
    }  # fmt: skip
    facts = conflict_facts(detail)
    if facts is not None:
        kind = str(facts["kind"])
        number = int(facts.get("number") or KINDS.get(kind, ("", 0))[1])
        if kind == "publisher_unreachable":
            return PublisherUnreachableError(message, number=number, **rest)
        if kind == "lock_timeout":
            return LockTimeoutError(message, number=number, **rest)
        if kind in KINDS:
            return ConflictError(message, facts=facts, number=number, **rest)
        return RejectedError(message, number=number, **rest)
    if sqlstate == "40001":
        return ConflictError(message, facts={"kind": "serialization_failure"}, **rest)
    if sqlstate == "40P01":
        return DeadlockError(message, **rest)
    if sqlstate == "55P03":
        return LockTimeoutError(message, **rest)
    if sqlstate == "23503":
        return ConflictError(message, facts={"kind": "fk_violation"}, **rest)
    return RejectedError(message, **rest)
