"""The transactions of an order's sessions: the steps of each, and the outcome that its session received.

A pure function of the events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from twopc.sim.report.events import (
    DoubtfulStep,
    HistoryEvent,
    SessionOutcome,
    StepEnd,
    StepError,
    StepRefusal,
    StepRollback,
    StepStart,
    StepSuccess,
    StepTimeout,
)

#: Command tags of statements that change rows.
WRITES = ("INSERT", "UPDATE", "DELETE", "MERGE", "COPY")
#: Steps that belong to no transaction.
_OF_AGENTS = frozenset({"sync", "reinitialise", "subscribe", "unsubscribe"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Author:
    """A transaction; compared by identity."""

    session: str
    """The session; empty if the transaction is known by its branch marker only."""
    node: str
    gid: str
    outcome: str
    """The outcome that the session received: committed, rolled back, or in doubt."""
    begun: int
    """The event with which the first step was sent."""
    sent: int
    """The event with which the last step was sent."""
    seq: int
    """The event with which the transaction ended; the order's last event if no event ends it."""
    has_asked: bool = True
    """Whether its branches may have been asked to prepare; otherwise none of them can be committed."""
    xid: str = ""
    """The transaction id at its node, if the transaction has no marker and the id is known."""
    steps: tuple[str, ...] = ()
    """The steps that wrote, without those that were rolled back to a savepoint."""
    nodes: tuple[str, ...] = ()
    """The nodes at which the transaction executed steps; there may be several Subscribers."""

    @property
    def name(self) -> str:
        """A name, as ``alice's transaction``."""
        return f"{self.session}'s transaction" if self.session else f"transaction {self.gid}"

    @property
    def is_told(self) -> bool:
        """Whether the session received the outcome committed."""
        return bool(self.session) and self.outcome == "committed"

    def wrote(self, table: str, key: str, sql_of: Mapping[str, str]) -> str:
        """Return the step that wrote this row, as far as its SQL shows."""
        of_table = [step for step in self.steps if table in sql_of.get(step, "")]
        spaced = key.replace("=", " = ")
        of_row = [step for step in of_table if re.search(rf"{re.escape(spaced)}\b", sql_of[step])]
        return (of_row or of_table or list(self.steps) or [""])[-1]


@dataclass(slots=True)
class _OpenTransaction:
    """A transaction that has not yet ended."""

    session: str
    node: str
    begun: int
    sent: int
    gid: str = ""
    xid: str = ""
    is_block: bool = False
    """Whether BEGIN started it: an error does not end a transaction block."""
    steps: list[str] = field(default_factory=list)
    has_asked: bool = True
    saved: dict[str, int] = field(default_factory=dict)
    nodes: dict[str, None] = field(default_factory=dict)

    def ended(self, seq: int, outcome: str) -> Author:
        return Author(
            session=self.session,
            node=self.node,
            gid=self.gid,
            has_asked=self.has_asked,
            xid=self.xid,
            outcome=outcome,
            begun=self.begun,
            sent=self.sent,
            seq=seq,
            steps=tuple(self.steps),
            nodes=tuple(self.nodes) or (self.node,),
        )

    def did(self, done: StepSuccess, sql: str) -> None:
        """Record a successful step."""
        words = sql.lower().replace(";", " ").split()
        self.nodes[done.node] = None
        self.gid = done.gid or self.gid
        self.xid = done.xid or self.xid
        if done.tag in ("BEGIN", "START TRANSACTION"):
            self.is_block = True
        elif done.tag == "SAVEPOINT" and words:
            self.saved[words[-1]] = len(self.steps)
        elif done.tag == "ROLLBACK" and "to" in words:
            del self.steps[self.saved.get(words[-1], 0) :]
        elif done.tag.startswith(WRITES) and done.rowcount:
            self.steps.append(done.step)


def transactions(events: Sequence[HistoryEvent]) -> list[Author]:
    """Return every transaction of every session, in the order in which they ended."""
    results: list[Author] = []
    open_: dict[str, _OpenTransaction] = {}
    sql_of: dict[tuple[str, str], str] = {}
    report: dict[str, str] = {}
    for event in events:
        session = event.session
        if not session:
            continue
        if isinstance(event, StepStart):
            sql_of[session, event.step] = event.sql
            if event.sql and event.sql not in _OF_AGENTS:
                one = open_.setdefault(
                    session, _OpenTransaction(session, event.node, event.seq, event.seq)
                )
                one.sent = event.seq
        elif isinstance(event, StepEnd):
            one = open_.get(session) or _OpenTransaction(session, event.node, event.seq, event.seq)
            outcome = _outcome(event, one, sql_of.get((session, event.step), ""))
            if outcome:
                open_.pop(session, None)
                results.append(one.ended(event.seq, outcome))
        elif isinstance(event, SessionOutcome):
            report[session] = event.message
    last = events[-1].seq if events else 0
    for session, one in open_.items():
        was = "rolled back" if report.get(session) == "rolled back" else "in doubt"
        results.append(one.ended(last, was))
    return results


def by_gid(authors: Iterable[Author]) -> dict[str, Author]:
    """Return the transactions by gid; of several with the same gid the first, as a later one cannot have begun."""
    results: dict[str, Author] = {}
    for one in authors:
        if one.gid:
            results.setdefault(one.gid, one)
    return results


def _outcome(ended: StepEnd, one: _OpenTransaction, sql: str) -> str:
    """Return the outcome of the transaction if the end of this step ended it; empty if it continues."""
    if isinstance(ended, StepSuccess):
        one.did(ended, sql)
        if ended.has_committed:
            return "committed"
        is_over = ended.tag == "ROLLBACK" and "to" not in sql.lower().split()
        one.has_asked = not is_over
        return "rolled back" if is_over else ""
    one.gid = ended.gid or one.gid
    if isinstance(ended, DoubtfulStep):
        if sql != "commit":  # the statement ended the transaction, and its writes are unknown
            one.steps.append(ended.step)
        return "in doubt"
    if isinstance(ended, StepRollback):
        one.has_asked = False
        return "rolled back"
    has_failed = isinstance(ended, (StepRefusal, StepError, StepTimeout))
    return "rolled back" if has_failed and (not one.is_block or sql == "commit") else ""
