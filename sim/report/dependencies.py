"""Read-write dependencies between transactions, and why serializable refused a transaction or did not.

A node refuses a serializable transaction when the reads and writes of transactions there may have no serial order
(Cahill, Röhm and Fekete 2008; Ports and Grittner 2012). A node knows its own transactions only: reads at a
Subscriber
are known nowhere else, and two-phase commit propagates outcomes from node to node, not reads. Two transactions of
different nodes may therefore both commit and have no serial order. A pure function of the fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise

from twopc import lexer
from twopc.sim.report.changes import VersionChange
from twopc.sim.report.fold import Fold
from twopc.sim.report.transactions import Author

#: Words with which a query may exclude a row or select another one.
_PERHAPS = frozenset(
    [
        "or",
        "not",
        "limit",
        "offset",
        "fetch",
        "join",
        "union",
        "intersect",
        "except",
        "case",
        "exists",
        "having",
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnseenWrite:
    """A read-write dependency: a transaction read data that a concurrent transaction then changed."""

    reader: Author
    read: str
    """The step that read."""
    writer: Author
    wrote: str
    """The step that changed the data."""
    what: str
    """The row, or the table if the history does not show which of its rows were changed."""
    is_certain: bool = False
    """Whether the reader's result would have been different after the change."""

    @property
    def text(self) -> str:
        """``alice's a_look read saving id=1 at sub1, and bob's b_take changed it from sub2``."""
        there = f" from {self.writer.node}" if self.writer.node != self.reader.node else ""
        return (
            f"{self.reader.session}'s {self.read} read {self.what} at {self.reader.node}, and "
            f"{self.writer.session}'s {self.wrote} changed it{there}"
        )


def refused_text(fold: Fold, refused: Author | None, node: str) -> str:
    """Describe the read-write dependencies between a refused serializable transaction and another one of its node.

    Return an empty text if the history does not show them: a trigger may have read the data, or more than two
    transactions may be involved.
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
    """Describe two serializable transactions of different nodes that both committed and have no serial order.

    Return the cause, and why neither was refused; both are empty if there is no such pair.

    Args:
        until: consider only pairs whose later transaction ended at this record.
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
            could = "could" if own.is_certain and others.is_certain else "might"
            return (
                f"{own.text}; {others.text}: neither saw the other's change, and one after the other they {could} "
                "not have ended so",
                "serializable holds among the transactions of one node: none knows what was read at another, and "
                "two-phase commit only makes each transaction happen everywhere or nowhere",
            )
    return "", ""


def is_locking_read(sql: str) -> bool:
    """Return whether a statement is ``SELECT … FOR UPDATE`` or takes a weaker row lock."""
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
    """Yield the rows that one transaction certainly read before the other's change of them was committed."""
    for step, seq in _reads(fold, reader):
        for change in fold.changes.made_by(writer) if seq < writer.seq else ():
            query = _RowRead(fold.sql_of[step], change, fold.tables)
            if query.is_sure:
                wrote = writer.wrote(change.table, change.key, fold.sql_of)
                yield UnseenWrite(
                    reader=reader,
                    read=step,
                    writer=writer,
                    wrote=wrote,
                    what=change.name,
                    is_certain=query.shows_change,
                )


def _of_tables(fold: Fold, reader: Author, writer: Author) -> Iterator[UnseenWrite]:
    """Yield the tables that one transaction read before the other, which wrote to them, ended.

    The history does not show which rows an uncommitted transaction changed.
    """
    for step, seq in _reads(fold, reader):
        for wrote in writer.steps if seq < writer.seq else ():
            both = _names(fold.sql_of[step]) & _names(fold.sql_of[wrote])
            for table in fold.tables:
                if table in both:
                    yield UnseenWrite(
                        reader=reader, read=step, writer=writer, wrote=wrote, what=table
                    )


def _reads(fold: Fold, author: Author) -> Iterator[tuple[str, int]]:
    """Yield the steps with which a transaction read, and the record of each step's end."""
    for each in fold.steps:
        ended = each.ended
        if (
            ended is not None
            and each.invoked.session == author.session
            and author.begun <= each.invoked.seq < author.seq
            and ended.tag.startswith("SELECT")
        ):
            yield each.invoked.step, ended.seq


class _RowRead:
    """What a query certainly read of a row that was changed."""

    def __init__(self, sql: str, change: VersionChange, tables: Iterable[str]) -> None:
        self._tokens = [token for token in lexer.tokens(sql) if token.kind != "space"]
        self._words = [token.word for token in self._tokens]
        self._change = change
        self._only = {*tables} & {token.name for token in self._tokens} == {change.table}

    @property
    def is_sure(self) -> bool:
        """Whether the query certainly read changed columns of the row: no condition except its key can exclude it."""
        return (
            self._only
            and not _PERHAPS.intersection(self._words)
            and self._names_changed()
            and ("where" not in self._words or self._key() <= self._equalities())
        )

    @property
    def shows_change(self) -> bool:
        """Whether the result contains the changed values themselves, not a value computed from them."""
        texts = [token.text for token in self._tokens]
        conditions = self._words.count("and") + ("where" in self._words)
        return (
            "(" not in texts
            and "order" not in self._words
            and conditions == ("where" in self._words) * len(self._key())
        )

    def _names_changed(self) -> bool:
        before, after = self._change.before, self._change.row
        if before is None or after is None or any(token.text == "*" for token in self._tokens):
            return before != after
        changed = {name for name in before if before[name] != after.get(name)}
        return not changed.isdisjoint(token.name for token in self._tokens)

    def _key(self) -> set[tuple[str, str]]:
        pairs = [part.partition("=")[::2] for part in self._change.key.split(", ")]
        return {(name, value) for name, value in pairs}

    def _equalities(self) -> set[tuple[str, str]]:
        """Return the equality conditions of the query as names and values, read in both directions."""
        triples = zip(self._tokens, self._tokens[1:], self._tokens[2:], strict=False)
        sides = [(one, other) for one, sign, other in triples if sign.text == "="]
        return {
            (name.name, value.text.strip("'"))
            for name, value in (*sides, *((other, one) for one, other in sides))
        }


def _names(sql: str) -> set[str]:
    return {token.name for statement in lexer.statements(sql) for token in statement}
