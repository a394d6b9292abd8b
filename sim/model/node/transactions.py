"""Transactions and subtransactions: their numbers, what they have done, and how it is taken back.

Knows nothing of sessions or SQL. What a transaction changes in memory it can take back physically, so that
the heap holds only what is committed, under way, or prepared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Takes back one thing that was done.
Undo = tuple[Callable[..., None], Any, Any]

RUNNING, PREPARED, COMMITTED, ABORTED = range(4)


class Xact:
    """A transaction, or a subtransaction of one.

    A subtransaction's own state says only whether it was taken back; whether its work counts is said by
    `top`.
    """

    __slots__ = (
        "changes_at", "commit_no", "joined", "lsn", "name", "parent", "queued_at", "settings", "state", "top",
        "undo", "waiters", "xid",
    )  # fmt: skip

    def __init__(self, parent: Xact | None = None, name: str = "") -> None:
        self.xid = 0
        """0 until it writes or locks."""
        self.parent = parent
        if parent is not None:
            self.top: TopXact = parent.top
        self.name = name
        """Of the savepoint."""
        self.state = RUNNING
        self.commit_no = 0
        """Position among the commits that others see; 0: not visible."""
        self.lsn = 0
        """End of its commit record; 0: none."""
        self.undo: list[Undo] = []
        self.waiters: list[Any] | None = None
        """`locks.Wait`s that last until it is over."""
        self.joined = False
        """Released: who waits for it waits for the whole transaction from then on."""
        self.changes_at = 0
        self.queued_at = 0
        self.settings: dict[str, str] | None = None


class TopXact(Xact):
    """A whole transaction."""

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
        """Itself; not kept in it, so that it goes away when nobody needs it any more, and not only with the
        collector of garbage."""
        return self

    def __init__(self, session: Any, level: str, began: float) -> None:
        super().__init__()
        self.session = session
        """Who runs it; None once it is prepared."""
        self.level = level
        self.began = began
        self.began_block = False
        """By BEGIN: an error leaves it open, and failed."""
        self.cid = 0
        """Number of the command under way: a statement does not see what it did itself."""
        self.snapshot: Any = None
        """Kept for the whole transaction above READ COMMITTED."""
        self.seen = ""
        """The same as pg_current_snapshot() tells it, where somebody will ask."""
        self.horizon = 0
        """Commits up to this one may not be forgotten while it runs."""
        self.changes: list[tuple[Any, str, Any, Any]] = []
        """Of rows, in order: table, operation, old, new."""
        self.rows: list[Any] = []
        """Rows whose versions may be thrown away once this is old."""
        self.deferred: list[Any] = []
        """Checks and triggers that wait for the commit."""
        self.gid = ""
        self.owner = ""
        self.database = ""
        self.prepared_at = 0.0
        self.record: Any = None
        """The log's record that it waits for."""
        self.ssi: Any = None
        self.tables: dict[str, int] = {}
        """Locks of whole tables, by table."""
        self.held: set[str] = set()
        """What forbids to prepare it, as PostgreSQL says it."""
        self.notified = False
        self.temporary = False
        self.advisory: set[int] = set()
