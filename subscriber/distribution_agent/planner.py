"""Planner of batches: which source transactions an agent delivers next, and in which commits. Pure.

A batch is a range of the log: all transactions in it are delivered in one commit at the Subscriber, whole,
in the order in which the Publisher committed them. *Terms*, one per article, say which changes of a transaction are
for this Subscriber:

* none up to the position from which the article was subscribed;
* then, up to the position at which its initial copy was made, only transactions that the copy has not
  seen: a transaction may commit while rows are copied;
* for rows that belong to calls of routines, none from there on, if the calls are taken;
* otherwise all, except commands of the Subscriber's own transactions, if loopback detection is on.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import ClassVar

from twopc.proc_execution import PgSnapshot
from twopc.subscriber.distribution_agent.profile import Profile

#: Number of waiting transactions that make a long backlog, and approximate number of commits per window for it.
_BACKLOG_MIN, _BACKLOG_COMMITS = 1_000, 2

__all__ = ["ArticleTerms", "Batch", "BatchPlanner", "OwnCommands", "PgSnapshot", "Window"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArticleTerms:
    """Terms of one article of the subscription."""

    article_id: int
    after: int = 0
    """Position from which the article's changes are delivered, exclusive."""
    copy: PgSnapshot | None = None
    """Snapshot of the initial copy; None if there was none."""
    copied_to: int = 0
    """Position after which no committed transaction is in the copy."""
    own: int | None = None
    """Originator whose commands are not delivered: the Subscriber itself. None if all are delivered."""
    upto: int | None = None
    """Position up to which the article's changes are delivered, inclusive; None if there is no end."""

    def wants(self, seqno: int, xid: int) -> bool:
        """Return whether changes of a transaction that committed at `seqno` are for the article."""
        if seqno <= self.after or (self.upto is not None and seqno > self.upto):
            return False
        return self.copy is None or seqno > self.copied_to or not self.copy.sees(xid)


@dataclass(frozen=True, slots=True)
class OwnCommands:
    """Loopback detection: the Subscriber's own commands, which are not delivered to it."""

    originator: int | None = None
    """The Subscriber; None if its own changes are delivered to it."""
    echoed: tuple[int, ...] = ()
    """Articles of which the Subscriber also gets its own commands."""

    @classmethod
    def of(cls, terms: Iterable[ArticleTerms]) -> OwnCommands:
        """Return the own commands of a subscription."""
        of_articles = {each.article_id: each.own for each in terms}
        own = next((one for one in of_articles.values() if one is not None), None)
        return cls(own, tuple(number for number, one in of_articles.items() if one is None))

    def has(self, originator: int | None, article_id: int) -> bool:
        """Return whether a command is one of the own commands."""
        return (
            self.originator is not None
            and originator == self.originator
            and article_id not in self.echoed
        )

    @staticmethod
    def has_not(originator: str, article_id: str) -> str:
        """Return SQL for the negation of `has`: $3 is the originator, -1 if None, and $4 is `echoed`.

        Args:
            originator, article_id: SQL of a command's values; originator 0 or null is the Publisher.
        """
        return f"({originator} is distinct from $3::int or {article_id} = any ($4::int[]))"

    @staticmethod
    def has_none(originators: str) -> str:
        """Return SQL that is true only if no command of these originators is an own one, whatever its article."""
        return f"$3::int <> all ({originators})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The next transactions in the distribution database, as columns, in commit order."""

    seqnos: Sequence[int] = ()
    xids: Sequence[int] = ()
    commands: Sequence[int] = ()
    """Number of commands of each transaction, for any Subscriber."""
    bytes: Sequence[int] = ()
    originators: Sequence[int] = ()
    """Originator of each transaction; 0 for the Publisher itself."""
    is_open: bool = False
    """Whether the window is a single transaction, still being stored; `commands` counts those stored so far."""

    def __len__(self) -> int:
        return len(self.seqnos)

    def part(self, taken: slice) -> Window:
        """Return a window of some of the transactions."""
        return Window(
            seqnos=self.seqnos[taken],
            xids=self.xids[taken],
            commands=self.commands[taken],
            bytes=self.bytes[taken],
            originators=self.originators[taken],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A range of the log delivered in one commit at the Subscriber: from `after` (exclusive) to `upto`."""

    after: int
    upto: int
    articles: tuple[int, ...]
    """Articles that have changes in the batch; if none, only the position moves."""
    seqnos: tuple[int, ...] = field(repr=False)
    """Commit positions of the batch's transactions."""
    commands: int
    """Upper bound of the number of commands for this Subscriber."""
    bytes: int = 0
    own: int = 0
    """Number of the Subscriber's own transactions in the batch."""

    def apart(self) -> Iterator[Batch]:
        """Yield a batch for each transaction."""
        for after, upto in pairwise((self.after, *self.seqnos)):
            yield replace(self, after=after, upto=upto, seqnos=(upto,), own=0)


class BatchPlanner:
    """Divides windows into batches.

    Args:
        terms: of the active subscribed articles.
        profile: limits of a batch.
        calls: codes of the calls of routines, which may touch any row.
    """

    own_commands: ClassVar[type[OwnCommands]] = OwnCommands

    def __init__(
        self, terms: Sequence[ArticleTerms], profile: Profile, calls: Collection[int] = ()
    ) -> None:
        self.terms = tuple(terms)
        self.calls = frozenset(calls)
        self.own = self.own_commands.of(terms)
        self._profile = profile
        self._all = tuple(each.article_id for each in terms if each.upto is None)
        self._settled = max(
            (max(each.after, each.copied_to, each.upto or 0) for each in terms), default=0
        )

    def start(self, position: int) -> int:
        """Return the position to begin at: no transaction before the first article's start is for this Subscriber."""
        if not self.terms:
            return position
        return max(position, min(each.after for each in self.terms))

    def is_call(self, code: int) -> bool:
        """Return whether a code is that of a routine's call."""
        return code in self.calls

    def articles_for(self, seqno: int, xid: int) -> tuple[int, ...]:
        """Return the articles for which a transaction has changes."""
        if seqno > self._settled:
            return self._all
        return tuple(each.article_id for each in self.terms if each.wants(seqno, xid))

    def may_begin(self, window: Window) -> bool:
        """Return whether delivery of the window's first transaction should begin before all of it is stored."""
        return window.originators[0] != self.own.originator and bool(
            self.articles_for(window.seqnos[0], window.xids[0])
        )

    def plan(self, position: int, window: Window, *, grows: bool = False) -> Iterator[Batch]:
        """Yield batches for the transactions of a window, which begins after `position`.

        Args:
            grows: whether batches may exceed the usual size if the window is a long backlog.
        """
        size, threshold = self._bounds(window) if grows else self._usual
        block_bytes, owner = self._profile.block_bytes, self.own.originator
        if len(window) and window.seqnos[0] > self._settled and owner not in window.originators:
            yield from self._plain(position, window, size, threshold)
            return
        first = commands = length = own = 0
        articles: tuple[int, ...] = ()
        for at, seqno in enumerate(window.seqnos):
            is_own = window.originators[at] == owner
            requested = self.articles_for(seqno, window.xids[at])
            count = 0 if is_own and not self.own.echoed else window.commands[at]
            if at > first and (
                requested != articles
                or at - first >= size
                or commands + count > threshold
                or length + window.bytes[at] > block_bytes
            ):
                batch = self._batch(position, window, first, at, articles, commands, length, own)
                yield batch
                position = batch.upto
                first, commands, length, own = at, 0, 0, 0
            articles = requested
            commands += count
            length += window.bytes[at]
            own += is_own
        if window.seqnos:
            yield self._batch(
                position, window, first, len(window.seqnos), articles, commands, length, own
            )

    def _plain(self, position: int, window: Window, size: int, threshold: int) -> Iterator[Batch]:
        """Yield batches as `plan` does, if every article takes every transaction."""
        counted, sized = list(accumulate(window.commands)), list(accumulate(window.bytes))
        first = commands = length = 0
        while first < len(counted):
            end = min(
                first + size,
                bisect_right(counted, commands + threshold, first),
                bisect_right(sized, length + self._profile.block_bytes, first),
            )
            end = max(end, first + 1)
            batch = self._batch(
                position, window, first, end, self._all, counted[end - 1] - commands,
                sized[end - 1] - length, 0,
            )  # fmt: skip
            yield batch
            position, first, commands, length = batch.upto, end, counted[end - 1], sized[end - 1]

    @property
    def _usual(self) -> tuple[int, int]:
        """Maximum numbers of transactions and of commands in a batch."""
        return self._profile.commit_batch_size, self._profile.commit_batch_threshold

    def _bounds(self, window: Window) -> tuple[int, int]:
        """Return the maximum numbers for a window: a long backlog is delivered in few commits."""
        size, threshold = self._usual
        if len(window) < _BACKLOG_MIN:
            return size, threshold
        most = self._profile.backlog_batch_size
        return (
            max(size, min(most, len(window) // _BACKLOG_COMMITS)),
            max(threshold, min(most, sum(window.commands) // _BACKLOG_COMMITS)),
        )

    def is_usual(self, batch: Batch) -> bool:
        """Return whether a batch is no larger than without a backlog."""
        size, threshold = self._usual
        count = len(batch.seqnos)
        return count == 1 or (count <= size and batch.commands <= threshold)

    @staticmethod
    def _batch(
        position: int,
        window: Window,
        first: int,
        last: int,
        articles: tuple[int, ...],
        commands: int,
        length: int,
        own: int,
    ) -> Batch:
        return Batch(
            after=position,
            upto=window.seqnos[last - 1],
            articles=articles,
            seqnos=tuple(window.seqnos[first:last]),
            commands=commands,
            bytes=length,
            own=own,
        )
