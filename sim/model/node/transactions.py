"""Transactions and subtransactions: their ids, their changes, and the undo of these.

Sessions and SQL are unknown here. Changes in memory are undone physically, so that the heap holds only versions of
transactions that are committed, running or prepared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: An undo entry: a function and its two arguments.
Undo = tuple[Callable[..., None], Any, Any]

RUNNING, PREPARED, COMMITTED, ABORTED = range(4)


class Xact:
    """A transaction, or a subtransaction.

    The state of a subtransaction tells only whether it was rolled back; whether it is committed depends on `top`.
    """

    __slots__ = (
        "changes_at", "commit_no", "joined", "lsn", "name", "parent", "queued_at", "settings", "state", "top",
        "undo", "waiters", "xid",
    )  # fmt: skip

    def __init__(self, parent: Xact | None = None, name: str = "") -> None:
        self.xid = 0
        """Transaction id; 0 until the transaction writes or locks."""
        self.parent = parent
        if parent is not None:
            self.top: TopXact = parent.top
        self.name = name
        """Name of the savepoint."""
        self.state = RUNNING
        self.commit_no = 0
        """Position among the visible commits; 0: not visible."""
        self.lsn = 0
        """End of the commit record; 0: none."""
        self.undo: list[Undo] = []
        self.waiters: list[Any] | None = None
        """Waits for the end of this transaction (`lock_waits.LockQueueWait`)."""
        self.joined = False
        """Whether the savepoint is released: waits for it are for the whole transaction from then on."""
        self.changes_at = 0
        self.queued_at = 0
        self.settings: dict[str, str] | None = None


class TopXact(Xact):
    """A top-level transaction."""

    __slots__ = (
        "advisory",
        "began",
        "began_block",
        "changes",
        "cid",
        "database",
        "deferred",
        "gid",
        "held",
        "horizon",
        "level",
        "notified",
        "owner",
        "prepared_at",
        "record",
        "rows",
        "seen",
        "session",
        "snapshot",
        "ssi",
        "tables",
        "temporary",
    )  # fmt: skip

    @property
    def top(self) -> TopXact:  # type: ignore[override] # a subtransaction has it in a slot
        """The transaction itself. Not stored, which would be a reference cycle that only the garbage collector
        frees.
        """
        return self

    def __init__(self, session: Any, level: str, began: float) -> None:
        super().__init__()
        self.session = session
        """The session that runs the transaction; None once it is prepared."""
        self.level = level
        self.began = began
        self.began_block = False
        """Whether the transaction was begun by BEGIN, so that an error leaves it open and failed."""
        self.cid = 0
        """Id of the current command: a statement does not see its own changes."""
        self.snapshot: Any = None
        """Above READ COMMITTED: the snapshot of the whole transaction."""
        self.seen = ""
        """The snapshot in the form of pg_current_snapshot(), if the node keeps snapshots."""
        self.horizon = 0
        """Number of the last commit at which versions must be kept while the transaction runs."""
        self.changes: list[tuple[Any, str, Any, Any]] = []
        """Changes of rows, in order: table, operation, old, new."""
        self.rows: list[Any] = []
        """Rows whose old versions may be removed when no transaction can see them."""
        self.deferred: list[Any] = []
        """Checks and triggers that are deferred to the commit."""
        self.gid = ""
        self.owner = ""
        self.database = ""
        self.prepared_at = 0.0
        self.record: Any = None
        """The WAL record for whose flush the transaction waits."""
        self.ssi: Any = None
        self.tables: dict[str, int] = {}
        """Table locks held, as bits, by table."""
        self.held: set[str] = set()
        """Reasons why the transaction cannot be prepared."""
        self.notified = False
        self.temporary = False
        self.advisory: set[int] = set()
