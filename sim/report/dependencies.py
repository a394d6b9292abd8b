"""Who read what another transaction changed without seeing it, and why serializable has refused that or has not.

A node's serializable transactions are refused when what they have read and changed there may have no serial order
(Cahill, Röhm and Fekete 2008; Ports and Grittner 2012). A node knows its own transactions only: what was read at
one Subscriber is known nowhere else, and two-phase commit carries outcomes from node to node, not reads. So
transactions of two nodes may both commit and have no serial order together. A pure function of the fold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

from twopc import lexer
from twopc.sim.report.changes import VersionChange
from twopc.sim.report.fold import Fold
from twopc.sim.report.transactions import Author


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenWrite:
    """A transaction read something, and another one that had not ended by then changed it."""

    reader: Author
    read: str
    """The step that read."""
    writer: Author
    wrote: str
    """The step that changed it."""
    what: str
    """A row, or a table if nothing shows which of its rows were changed."""

    @property
    def text(self) -> str:
        """``alice's a_look read saving id=1 at sub1, and bob's b_take changed it from sub2``."""
        there = f" from {self.writer.node}" if self.writer.node != self.reader.node else ""
        return (
            f"{self.reader.session}'s {self.read} read {self.what} at {self.reader.node}, and "
            f"{self.writer.session}'s {self.wrote} changed it{there}"
        )


def refused_text(fold: Fold, refused: Author | None, node: str) -> str:
    """What a serializable transaction that was refused at a node, and another one of that node, have read unseen.

    Empty if the history does not tell: a trigger may have read it, or more than two transactions.
    """
    for other in fold.transactions:
        if refused is None or other is refused or not other.node == refused.node == node:
            continue
        own, others = (
            next(_of_tables(fold, *pair), None) for pair in ((refused, other), (other, refused))
        )
        if own is not None and others is not None:
            return f"{others.text}; {own.text}"
    return ""


def across_nodes(fold: Fold, *, until: int | None = None) -> tuple[str, str]:
    """Two serializable transactions of different nodes that committed and have no serial order together.

    What brought it about, and why it was not refused; both empty if there are none.

    Args:
        until: only if the later one was committed by this record.
    """
    if "serializable" not in fold.levels.values():
        return "", ""
    for one, other in combinations(fold.changes.authors, 2):
        levels = {fold.levels.get(each.node) for each in (one, other)}
        if one.node == other.node or levels != {"serializable"} or until not in (None, other.seq):
            continue
        own, others = (
            next(_of_rows(fold, one, other), None),
            next(_of_rows(fold, other, one), None),
        )
        if own is not None and others is not None:
            return (
                f"{own.text}; {others.text}: neither saw the other's change, and one after the other they could "
                "not have ended so",
                "serializable holds among the transactions of one node: none knows what was read at another, and "
                "two-phase commit only makes each transaction happen everywhere or nowhere",
            )
    return "", ""


def is_locking_read(sql: str) -> bool:
    """It is ``SELECT … FOR UPDATE``, or for a weaker lock."""
    strengths = ("update", "share", "no", "key")
    for statement in lexer.statements(sql):
        text = lexer.words(statement)
        pairs = pairwise(text)
        if text[:1] in (["select"], ["with"]) and any(
            first == "for" and second in strengths for first, second in pairs
        ):
            return True
    return False


def _of_rows(fold: Fold, reader: Author, writer: Author) -> Iterator[UnseenWrite]:
    """Rows that one has surely read before another one's change of them was committed."""
    for step, seq in _reads(fold, reader):
        for change in fold.changes.made_by(writer) if seq < writer.seq else ():
            if _reads_row(fold.sql_of[step], change):
                wrote = writer.wrote(change.table, change.key, fold.sql_of)
                yield UnseenWrite(
                    reader=reader, read=step, writer=writer, wrote=wrote, what=change.name
                )


def _of_tables(fold: Fold, reader: Author, writer: Author) -> Iterator[UnseenWrite]:
    """Likewise tables: of what is not committed it is not known which rows were changed."""
    for step, seq in _reads(fold, reader):
        for wrote in writer.steps if seq < writer.seq else ():
            both = _names(fold.sql_of[step]) & _names(fold.sql_of[wrote])
            for table in fold.tables:
                if table in both:
                    yield UnseenWrite(
                        reader=reader, read=step, writer=writer, wrote=wrote, what=table
                    )


def _reads(fold: Fold, author: Author) -> Iterator[tuple[str, int]]:
    """The steps with which it read, and the record of each one's end."""
    for each in fold.steps:
        ended = each.ended
        if (
            ended is not None
            and each.invoked.session == author.session
            and author.begun <= each.invoked.seq < author.seq
            and ended.tag.startswith("SELECT")
        ):
            yield each.invoked.step, ended.seq


def _reads_row(sql: str, change: VersionChange) -> bool:
    """Whether a query has surely read a row: it names the table, and the row's key or no condition."""
    texts = {token.text.strip("'") for each in lexer.statements(sql) for token in each}
    if change.table not in _names(sql):
        return False
    key = [part.partition("=")[::2] for part in change.key.split(", ")]
    return "where" not in sql.lower() or all(n in _names(sql) and v in texts for n, v in key)


def _names(sql: str) -> set[str]:
    return {token.name for statement in lexer.statements(sql) for token in statement}
