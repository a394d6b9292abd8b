"""Content of the distribution database as values: subscriptions, loads of commands, single commands.

Pure.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from psycopg import pq

from twopc.core import cut_by_article
from twopc.lsn import lsn_value
from twopc.proc_execution import BESIDE, base_of
from twopc.propagation import Propagation
from twopc.subscriber.distribution_agent.arrays import block, concatenated, numbers, texts
from twopc.subscriber.distribution_agent.planner import ArticleTerms, Batch, PgSnapshot, Window


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """A message posted in the Publisher's log for every Subscriber: a tracer token, a validation."""

    seqno: int
    type: int
    """`twopc.propagation.CommandType`."""
    body: dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPart:
    """Commands of a batch for one stream, as two arrays that the agent does not decode."""

    stream: int
    codes: bytes
    calls: bytes
    low: int
    high: int
    """Highest code; equal to `low` if all commands are of one type."""
    count: int


def part_of(commands: Sequence[tuple[int, bytes]], stream: int = 0) -> StreamPart:
    """Return a part that contains commands, each given with its code."""
    codes, calls = block(commands)
    seen = [code for code, _ in commands]
    return StreamPart(
        stream=stream,
        codes=codes,
        calls=calls,
        low=min(seen),
        high=max(seen),
        count=len(seen),
    )


def joined(parts: Sequence[StreamPart]) -> tuple[StreamPart, ...]:
    """Join adjacent parts of one type and one stream: a large statement costs less than several small ones."""
    results: list[StreamPart] = []
    for (stream, low, high), group in groupby(
        parts, lambda each: (each.stream, each.low, each.high)
    ):
        several = tuple(group)
        if len(several) == 1 or low != high:
            results += several
            continue
        count = sum([each.count for each in several])
        results.append(
            StreamPart(
                stream=stream,
                codes=concatenated([each.codes for each in several], count),
                calls=concatenated([each.calls for each in several], count),
                low=low,
                high=high,
                count=count,
            )
        )
    return tuple(results)


def separated(parts: Sequence[StreamPart], apart: Sequence[int]) -> list[StreamPart]:
    """Return the parts of articles that are kept apart, by number, preceded by the parts of the other articles."""
    groups: dict[int, list[StreamPart]] = {}
    numbers = sorted(apart)
    for part in parts:
        if part.low // 100 == part.high // 100:
            article = part.low // 100
            groups.setdefault(article if article in apart else 0, []).append(part)
            continue
        for article, codes, calls, low, high, count in cut_by_article(
            part.codes, part.calls, numbers
        ):
            groups.setdefault(article, []).append(
                StreamPart(
                    stream=part.stream, codes=codes, calls=calls, low=low, high=high, count=count
                )
            )
    return [part for _, group in sorted(groups.items()) for part in group]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLoad:
    """A batch, or a block of a large one."""

    batch: Batch
    parts: tuple[StreamPart, ...]
    posted: tuple[StoredMessage, ...] = ()
    first: bool = True
    last: bool = True
    """Whether this is the batch's last load; the last load of a large batch is empty."""

    @property
    def count(self) -> int:
        """Number of commands in the load."""
        return sum(part.count for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedCommand:
    """A single command with its fields."""

    seqno: int
    xid: int
    command_id: int
    article_id: int
    type: int
    originator: int | None
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscribedArticles:
    """The articles that a Subscriber gets from a Publisher, and their formats."""

    terms: tuple[ArticleTerms, ...] = ()
    propagation: tuple[tuple[int, Propagation], ...] = ()
    """Propagation of tables, by article id."""
    calls: tuple[int, ...] = ()
    """Article ids of the routines whose calls the Subscriber takes."""
    definitions: tuple[int, ...] = ()
    """Article ids of the routines whose definitions the Subscriber takes."""


def subscription_of(rows: Sequence[tuple[str | None, ...]]) -> SubscribedArticles:
    """Return the subscription from the rows of `queries.SUBSCRIPTIONS`."""
    terms, propagation = [], []
    calls, definitions = [], []
    for number, after, copy, copied_to, own, how, upto, kind in rows:
        article_id = int(str(number))
        terms.append(
            ArticleTerms(
                article_id=article_id,
                after=lsn_value(after) if after else 0,
                copy=PgSnapshot.parse(copy) if copy else None,
                copied_to=lsn_value(copied_to) if copied_to else 0,
                own=int(own) if own else None,
                upto=lsn_value(upto) if upto else None,
            )
        )
        if kind == "table":
            propagation.append((article_id, Propagation.from_json(json.loads(str(how)))))
        elif article_id < BESIDE:
            calls.append(article_id)
        else:
            definitions.append(base_of(article_id))
    return SubscribedArticles(
        terms=tuple(terms),
        propagation=tuple(propagation),
        calls=tuple(calls),
        definitions=tuple(definitions),
    )


def window_of(result: pq.abc.PGresult, position: int) -> Window:
    """Return the transactions after a position, from the rows of `queries.WINDOW`."""
    columns: list[list[int]] = [[], [], [], [], []]
    for row in range(result.ntuples):
        for at, (column, code) in enumerate(zip(columns, "QQiqi", strict=True)):
            column += numbers(result.get_value(row, at), code)
    seqnos, xids, commands, lengths, originators = columns
    window = Window(
        seqnos=seqnos, xids=xids, commands=commands, bytes=lengths, originators=originators
    )
    return window.part(slice(bisect_right(seqnos, position), None))


def split_rows(
    batches: Sequence[Batch], result: pq.abc.PGresult, apart: Sequence[int] = ()
) -> list[BatchLoad]:
    """Return a load for each batch, from the rows of `queries.BATCHES` or `queries.CUT_OUT`.

    Args:
        apart: articles to separate into parts of their own, with a single stream; none if the query has done
            so.
    """
    parts: list[list[StreamPart]] = [[] for _ in batches]
    posted: list[list[StoredMessage]] = [[] for _ in batches]
    for row in range(result.ntuples):
        at = int.from_bytes(result.get_value(row, 0) or b"")
        part, results = _part(result, row)
        if part.count:
            parts[at].append(part)
        posted[at] += results
    return [
        BatchLoad(
            batch=batch,
            parts=joined(separated(parts[at], apart) if apart else parts[at]),
            posted=tuple(posted[at]),
        )
        for at, batch in enumerate(batches)
    ]


def block_of(batch: Batch, result: pq.abc.PGresult, first: bool) -> tuple[BatchLoad, int | None]:
    """Return a block, from the rows of `queries.BLOCK`, and the number of its last command, or None at the end."""
    parts, posted, last = [], [], None
    for row in range(result.ntuples):
        last = max(last or 0, int.from_bytes(result.get_value(row, 0) or b""))
        part, results = _part(result, row)
        if part.count:
            parts.append(part)
        posted += results
    load = BatchLoad(
        batch=batch,
        parts=tuple(parts),
        posted=tuple(posted),
        first=first,
        last=last is None,
    )
    return load, last


def _part(result: pq.abc.PGresult, row: int) -> tuple[StreamPart, list[StoredMessage]]:
    stream, codes, calls, low, high, count, posted = (
        result.get_value(row, column) for column in range(1, 8)
    )
    results = []
    for text in texts(posted):
        seqno, kind, body = text.decode().split(" ", 2)
        results.append(StoredMessage(seqno=lsn_value(seqno), type=int(kind), body=json.loads(body)))
    return (
        StreamPart(
            stream=int.from_bytes(stream or b""),
            codes=codes or b"",
            calls=calls or b"",
            low=int.from_bytes(low or b""),
            high=int.from_bytes(high or b""),
            count=int.from_bytes(count or b""),
        ),
        results,
    )
