"""The transactions of an order's sessions: which steps belong to each, and how its session was told that it ended.

A pure function of the records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from twopc.sim.report.history import ENDS, HistoryRecord

#: Command tags of statements that change rows.
WRITES = ("INSERT", "UPDATE", "DELETE", "MERGE", "COPY")
_FAILED = frozenset({"rejected", "error", "timed_out"})
#: Steps that belong to no transaction.
_OF_AGENTS = frozenset({"sync", "reinitialise", "subscribe", "unsubscribe"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Author:
    """A transaction; two of them are never equal."""

    session: str
    """Empty: it is known by its branch marker only."""
    node: str
    gid: str
    outcome: str
    """As its session was told: committed, rolled back, or in doubt."""
    begun: int
    """The record with which its first step was sent."""
    sent: int
    """Likewise its last step."""
    seq: int
    """The record that says how it ended; the order's last record if none does."""
    has_asked: bool = True
    """Its branches may have been asked for their votes: otherwise nothing of it can be committed."""
    xid: str = ""
    """Of a transaction without markers, its id at its node, as far as it is known."""
    steps: tuple[str, ...] = ()
    """Its steps that wrote, without those that were taken back."""
    nodes: tuple[str, ...] = ()
    """Where it worked: at several Subscribers, perhaps."""

    @property
    def name(self) -> str:
        """``alice's transaction``."""
        return f"{self.session}'s transaction" if self.session else f"transaction {self.gid}"

    @property
    def is_told(self) -> bool:
        """Its session was told that it was committed."""
        return bool(self.session) and self.outcome == "committed"

    def wrote(self, table: str, key: str, sql_of: Mapping[str, str]) -> str:
        """The step that wrote this row, as far as its SQL tells."""
        of_table = [step for step in self.steps if table in sql_of.get(step, "")]
        spaced = key.replace("=", " = ")
        of_row = [step for step in of_table if re.search(rf"{re.escape(spaced)}\b", sql_of[step])]
        return (of_row or of_table or list(self.steps) or [""])[-1]


@dataclass(slots=True)
class _OpenTransaction:
    """A transaction that has not ended yet."""

    session: str
    node: str
    begun: int
    sent: int
    gid: str = ""
    xid: str = ""
    is_block: bool = False
    """It was begun by BEGIN: an error does not end it."""
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

    def did(self, record: HistoryRecord, sql: str) -> None:
        """A step of it went well."""
        words = sql.lower().replace(";", " ").split()
        self.nodes[record.node] = None
        self.gid = record.gid or self.gid
        self.xid = str((record.data or {}).get("xid", "")) or self.xid
        if record.tag in ("BEGIN", "START TRANSACTION"):
            self.is_block = True
        elif record.tag == "SAVEPOINT" and words:
            self.saved[words[-1]] = len(self.steps)
        elif record.tag == "ROLLBACK" and "to" in words:
            del self.steps[self.saved.get(words[-1], 0) :]
        elif record.tag.startswith(WRITES) and record.rowcount:
            self.steps.append(record.step)


def transactions(records: Sequence[HistoryRecord]) -> list[Author]:
    """Every transaction of every session, in the order in which they ended."""
    results: list[Author] = []
    open_: dict[str, _OpenTransaction] = {}
    sql_of: dict[tuple[str, str], str] = {}
    report: dict[str, str] = {}
    for record in records:
        session = record.session
        if not session:
            continue
        if record.kind == "invoke":
            sql_of[session, record.step] = record.sql
            if record.sql and record.sql not in _OF_AGENTS:
                one = open_.setdefault(
                    session, _OpenTransaction(session, record.node, record.seq, record.seq)
                )
                one.sent = record.seq
        elif record.kind in ENDS:
            one = open_.get(session) or _OpenTransaction(
                session, record.node, record.seq, record.seq
            )
            outcome = _outcome(record, one, sql_of.get((session, record.step), ""))
            if outcome:
                open_.pop(session, None)
                results.append(one.ended(record.seq, outcome))
        elif record.kind == "outcome":
            report[session] = record.message
    last = records[-1].seq if records else 0
    for session, one in open_.items():
        was = "rolled back" if report.get(session) == "rolled back" else "in doubt"
        results.append(one.ended(last, was))
    return results


def by_gid(authors: Iterable[Author]) -> dict[str, Author]:
    """The global transactions; a later one of the same name could not begin, and has told its session's last."""
    results: dict[str, Author] = {}
    for one in authors:
        if one.gid:
            results.setdefault(one.gid, one)
    return results


def _outcome(record: HistoryRecord, one: _OpenTransaction, sql: str) -> str:
    """How this end of a step ended the transaction; empty: it goes on."""
    if record.kind == "ok":
        one.did(record, sql)
        if (record.data or {}).get("committed"):
            return "committed"
        is_over = record.tag == "ROLLBACK" and "to" not in sql.lower().split()
        one.has_asked = not is_over
        return "rolled back" if is_over else ""
    one.gid = record.gid or one.gid
    if record.kind == "in_doubt":
        if (
            sql != "commit"
        ):  # the statement has ended the transaction, and nobody knows what it has written
            one.steps.append(record.step)
        return "in doubt"
    if record.kind == "rolled_back":
        one.has_asked = False
        return "rolled back"
    is_over = record.kind in _FAILED and (not one.is_block or sql == "commit")
    return "rolled back" if is_over else ""
