"""Every exception of the project, each saying whether the outcome is definite.

.. code-block:: text

    TwopcError
    ├── ConfigurationError            something is not set up: object and remedy in the message
    │   ├── ServerError               no server, too old, a setting or a right is missing
    │   ├── ArticleError              this table cannot be published so
    │   └── SubscriptionError         this subscription cannot be made, or is not active
    ├── ScenarioError                 the scenario file is wrong: file:line:column
    ├── DeliveryError                 a change cannot be brought to a Subscriber
    ├── MergeError                    a merge session cannot begin, or go on
    ├── ProtocolError
    │   ├── LocalProtocolError        the caller used a machine against its table
    │   └── RemoteProtocolError       a participant broke the rules
    └── TransactionError
        ├── RejectedError             refused, rolled back at every site
        │   ├── ConflictError         the row is not what the Subscriber last received
        │   ├── PublisherUnreachableError
        │   ├── LockTimeoutError      waited for a lock at one end for too long
        │   ├── DeadlockError         victim of a deadlock, possibly across servers
        │   └── VoteError             a participant could not prepare
        ├── InDoubtError              may have happened, may not: ask later
        │   └── HeuristicError        somebody finished a branch by hand: the sites differ
        └── ResultLostError           happened at every site; what it returned is lost

An application needs two of them: `RejectedError` surely did not happen; `InDoubtError` may have.
Whoever uses transactions of one statement (`PostgresCoordinator.run`) needs the third.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

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
    """Base of every exception here."""

    definite: ClassVar[bool] = True
    """True: the outcome is known. Nothing took effect, but for `ResultLostError`, where all of it did."""


class ConfigurationError(TwopcError):
    """Something is not set up; nothing was changed."""


class ServerError(ConfigurationError):
    """No server, a server too old, or a setting or right that is missing."""


class SlotInUseError(ServerError):
    """Another log reader reads the slot (18752)."""


class StoredMeanwhileError(ServerError):
    """Another log reader has stored transactions since this one looked (18752)."""


class OutdatedError(ServerError):
    """The distribution database was installed by an earlier version.

    Args:
        missing: the server's message, which names a table, column or function that is missing.
    """

    SQLSTATES: ClassVar[frozenset[str]] = frozenset({"42883", "42703", "42P01"})
    """Of such messages."""

    def __init__(self, missing: str) -> None:
        super().__init__(
            f"the distribution database was installed by an earlier version ({missing}): `twopc regenerate` a "
            "published table, which adds what is missing, and start the agents again"
        )


class ArticleError(ConfigurationError):
    """The table cannot be published so."""


class SubscriptionError(ConfigurationError):
    """The subscription cannot be made, or is not active."""


class ScenarioError(TwopcError):
    """A scenario file is wrong; the message holds file:line:column."""


class DeliveryError(TwopcError):
    """An agent, or the log reader, cannot go on: what comes next has reached nobody behind it.

    What was delivered before stays; nothing of the transaction that failed is at the Subscriber.
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
        """The Subscriber; empty if it concerns all of them."""
        self.sqlstate = sqlstate
        """SQLSTATE at the database that refused; empty if none answered."""
        self.number = number
        """The original's error number (20598, 2601, 2627 ...); 0 where it has none."""
        self.seqno = seqno
        """The transaction's place in the log, a pg_lsn; empty if it is not about one."""
        self.command = command
        """The command that failed, readable; empty if unknown."""


class MergeError(TwopcError):
    """A merge session cannot begin, or cannot go on; what it has brought across stays, and the next continues."""

    def __init__(
        self, message: str, *, node: str = "", sqlstate: str = "", number: int = 0
    ) -> None:
        super().__init__(message)
        self.node = node
        """The node that refused; empty if none in particular."""
        self.sqlstate = sqlstate
        """SQLSTATE at that node; empty if none answered."""
        self.number = number
        """The original's error number; 0 if it has none for this."""


class ProtocolError(TwopcError):
    """A machine was asked for something its transition table does not hold."""


class LocalProtocolError(ProtocolError):
    """The caller used the machine against its table; the machine is unchanged."""


class RemoteProtocolError(ProtocolError):
    """A participant sent what the protocol does not allow; the machine is unchanged."""


class TransactionError(TwopcError):
    """A global transaction did not end as asked."""

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
        """The global transaction, without a branch; empty if none was begun."""
        self.node = node
        """The node that refused; empty if none in particular."""
        self.sqlstate = sqlstate
        """SQLSTATE at that node; empty if no server answered."""
        self.number = number
        """The error number of the original (20515, 21054, ...); 0 where it has none."""
        self.detail = detail
        self.hint = hint


class RejectedError(TransactionError):
    """Refused and rolled back at every site."""

    @property
    def kind(self) -> str:
        """The normalised kind; "error" if it is none of `KINDS`."""
        return "error"


class ConflictError(RejectedError):
    """The Publisher's row is not what the Subscriber last received (seed 002, Conflict Detection).

    Retrying helps only after a sync, except for `serialization_failure`.
    """

    def __init__(self, message: str, *, facts: dict[str, Any] | None = None, **rest: Any) -> None:
        super().__init__(message, **rest)
        self.facts = facts or {}
        """What the Publisher said: article, key, both versions, its current row."""

    @property
    def kind(self) -> str:
        """One of `KINDS`."""
        return str(self.facts.get("kind", "version_mismatch"))

    @property
    def key(self) -> dict[str, Any]:
        """Key columns of the first conflicting row, as text."""
        return dict(self.facts.get("key") or {})


class PublisherUnreachableError(RejectedError):
    """The Publisher did not answer (the original's 21054); nothing was left there."""

    @property
    def kind(self) -> str:
        """Always ``publisher_unreachable``."""
        return "publisher_unreachable"


class LockTimeoutError(RejectedError):
    """Waited for a lock longer than ``lock_timeout`` at one of the ends."""

    def __init__(self, message: str, *, holder: str = "", **rest: Any) -> None:
        super().__init__(message, **rest)
        self.holder = holder
        """The session that held the lock, where somebody has looked: the server does not tell it."""

    @property
    def kind(self) -> str:
        """Always ``lock_timeout``."""
        return "lock_timeout"


class DeadlockError(RejectedError):
    """Victim of a deadlock; `cycle` tells who waited for whom, across servers too."""

    def __init__(self, message: str, *, cycle: tuple[str, ...] = (), **rest: Any) -> None:
        super().__init__(message, **rest)
        self.cycle = cycle

    @property
    def kind(self) -> str:
        """Always ``deadlock``."""
        return "deadlock"


class VoteError(RejectedError):
    """A participant could not prepare: every branch was rolled back."""


class InDoubtError(TransactionError):
    """The outcome is not known here and now; recovery will settle it at every site alike."""

    definite: ClassVar[bool] = False


class HeuristicError(InDoubtError):
    """A branch was finished by hand against the decision: it happened at one site and not at
    another. It is recorded; recovery cannot mend it."""


class ResultLostError(TransactionError):
    """Committed at every site, and never to be repeated; the connection that broke held what the
    statement returned."""


def conflict_facts(detail: str | None) -> dict[str, Any] | None:
    """The JSON object that our procedures put in DETAIL, or None if it is something else."""
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
    """The refusal that an error report of a server stands for.

    The transaction must already be known to be rolled back: this never yields `InDoubtError`.
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
