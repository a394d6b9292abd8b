"""Tests of the planner with constructed messages: the cut into blocks does not change its rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log_reader.unpacked import checked, unpacked
from twopc.articles import Article, Column
from twopc.distributed_article import DistributedArticle, default_procedures
from twopc.names import VERSION_COLUMN
from twopc.publisher.commands import CommandBuilder
from twopc.publisher.log_reader import rows
from twopc.publisher.log_reader.planner import LogPlanner, ReaderArticles
from twopc.publisher.pgoutput import (
    BeginMessage,
    CommitMessage,
    Decoded,
    RelationColumn,
    RelationMessage,
    RowMessage,
)
from twopc.sim.model.distribution.packets import encode

ITEM = Article(
    schema="public",
    table="item",
    columns=(
        Column(name="id", type="integer", not_null=True),
        Column(name=VERSION_COLUMN, type="uuid", not_null=True),
    ),
    key=("id",),
)
ARTICLE = DistributedArticle(
    article_id=7, article=ITEM, procedures=default_procedures("public", "item")
)
TABLE = RelationMessage(
    500, "public", "item", "f",
    (RelationColumn("id", 23, -1, True), RelationColumn(VERSION_COLUMN, 2950, -1, True)),
)  # fmt: skip
MARKER = RelationMessage(
    501, "msrepl", "branch_marker", "d",
    tuple(RelationColumn(name, 25, -1, name == "gid") for name in ("gid", "originator", "fence")),
)  # fmt: skip
ORIGINATORS = {"link_a": 11, "link_b": 12}


def planner(read_to: int = 0, next_xid: int = 1000) -> LogPlanner:
    """Return a planner that knows the article and two originators."""
    known = ReaderArticles(builder=CommandBuilder([ARTICLE]), originators=ORIGINATORS)
    return LogPlanner(known, publisher=3, read_to=read_to, next_xid=next_xid)


def insert(key: int) -> RowMessage:
    """Return the insert of a row."""
    return RowMessage(TABLE, "ins", None, [str(key).encode(), b"v"], False)


def mark(role: str | None, *, fence: bool = False) -> RowMessage:
    """Return the insert of a branch marker."""
    originator = None if role is None else role.encode()
    return RowMessage(MARKER, "ins", None, [b"gid", originator, b"t" if fence else b"f"], False)


def transaction(lsn: int, *changes: RowMessage, xid: int = 900) -> list[Decoded]:
    """Return a transaction's messages as in the log."""
    return [BeginMessage(lsn, lsn * 10, xid), *changes, CommitMessage(lsn, lsn + 8, lsn * 10)]


def feed(one: LogPlanner, messages: list[Decoded]) -> None:
    """Feed messages in one block."""
    one.feed([encode(message) for message in messages])


def rows_of(rows: Iterable[bytes]) -> tuple[list[tuple[int, ...]], list[tuple[Any, ...]]]:
    """Return transactions and commands of blocks, which are checked."""
    return checked(unpacked(b"".join(rows)))


CHANGES = st.integers(0, 99).map(insert) | st.sampled_from(
    [mark("link_a"), mark("link_b"), mark("stranger"), mark(None), mark("link_a", fence=True)]
)
LOG = st.lists(st.lists(CHANGES, max_size=6), max_size=8).map(
    lambda drawn: [
        message
        for place, changes in enumerate(drawn, 1)
        for message in transaction(place * 100, *changes)
    ]
)


@given(LOG, st.data())
def test_the_cut_into_blocks_does_not_matter(log: list[Decoded], data: Any) -> None:
    whole, cut = planner(), planner()
    for one in (whole, cut):
        feed(one, [TABLE, MARKER])
    feed(whole, log)
    expected = whole.take()
    rows: list[bytes] = []
    remarked: dict[int, int] = {}
    at = 0
    while at < len(log):
        size = data.draw(st.integers(1, 5))
        feed(cut, log[at : at + size])
        at += size
        if data.draw(st.booleans()):
            taken = cut.take()
            rows += taken.blocks
            remarked |= dict(taken.remarked)
            if cut.open and data.draw(st.booleans()):
                rows += cut.take_part().blocks
    taken = cut.take()
    assert not cut.open
    assert not expected.remarked
    transactions, commands = rows_of(expected.blocks)
    found, parts = rows_of([*rows, *taken.blocks])
    remarked |= dict(taken.remarked)
    assert found == transactions
    assert [(*c[:3], remarked.get(c[0], c[3]), *c[4:]) for c in parts] == commands
    assert (cut.size, whole.size) == (0, 0)
    assert cut.read_to == whole.read_to


@given(LOG)
def test_every_transaction_tells_its_last_originator(log: list[Decoded]) -> None:
    one = planner()
    feed(one, [TABLE, MARKER, *log])
    batch = one.take()
    transactions, commands = rows_of(batch.blocks)
    by_seqno: dict[int, list[Any]] = {}
    for seqno, place, _, originator, _, text in commands:
        by_seqno.setdefault(seqno, []).append((place, originator, text))
    assert len(by_seqno) == len(transactions) == batch.transactions
    assert len(commands) == batch.commands
    for seqno, xid, time, originator, marks, count, length in transactions:
        changes = [
            message
            for message in log[log.index(BeginMessage(seqno, seqno * 10, 900)) :]
            if isinstance(message, RowMessage | CommitMessage)
        ]
        changes = changes[: next(n for n, m in enumerate(changes) if isinstance(m, CommitMessage))]
        roles = [
            change.new[1].decode()
            for change in changes
            if isinstance(change, RowMessage) and change.relation == MARKER
            and change.new is not None and change.new[1] is not None and change.new[2] == b"f"
        ]  # fmt: skip
        found = by_seqno[seqno]
        assert (xid, time) == (900, seqno * 10)
        assert originator == (ORIGINATORS.get(roles[-1], 0) if roles else 0)
        assert marks == len(set(roles))
        assert [place for place, _, _ in found] == list(range(1, count + 1))
        assert length == sum(len(text) for *_, text in found)
        assert {each for _, each, _ in found} == {originator}


def test_what_was_stored_before_is_dropped() -> None:
    one = planner(read_to=200)
    log = [transaction(100, insert(1)), transaction(200, insert(2)), transaction(300, insert(3))]
    feed(one, [TABLE, *log[0], *log[1]])
    assert one.transactions == 0
    assert (one.read_to, one.end_lsn) == (200, 208)
    feed(one, log[2])
    assert [text for *_, text in rows_of(one.take().blocks)[1]] == [b'("3","v")']
    assert (one.read_to, one.end_lsn) == (300, 308)


def test_a_transaction_without_commands_is_not_stored_but_read() -> None:
    one = planner()
    feed(one, [MARKER, *transaction(100, mark("link_a"))])
    assert one.transactions == 0
    assert not one.passed_over
    assert (one.read_to, one.end_lsn) == (100, 108)


def test_changes_of_what_is_not_an_article_are_noticed() -> None:
    one = planner()
    other = TABLE._replace(oid=502, name="other")
    feed(one, [other, *transaction(100, insert(1)._replace(relation=other))])
    assert one.passed_over
    one.take()
    assert not one.passed_over


def test_size_tells_how_much_is_kept() -> None:
    one = planner()
    feed(one, [TABLE, *transaction(100, insert(1))[:-1]])
    half = one.size
    assert half > 0
    assert one.take_part().blocks
    assert one.size == 0
    feed(one, [insert(2)])
    assert one.size == half
    feed(one, [CommitMessage(100, 108, 1000)])
    assert one.size == half
    assert one.take().commands == 2
    assert one.size == 0


@pytest.mark.parametrize("near", [3, 2**31, 2**32 - 1, 2**32, 5 * 2**32 + 7, 2**40])
@pytest.mark.parametrize("distance", [0, 1, -1, 2**31 - 1, -(2**31)])
def test_a_transaction_id_gets_its_epoch_back(near: int, distance: int) -> None:
    full = near + distance
    one = planner(next_xid=near)
    feed(one, [TABLE, *transaction(100, insert(1), xid=full % 2**32)])
    transactions, _ = rows_of(one.take().blocks)
    assert [row[1] for row in transactions] == [full]


def test_ids_are_followed_over_the_end_of_an_epoch() -> None:
    one = planner(next_xid=2**32 - 2)
    xids = [2**32 - 1, 3, 2**31, 2**32 - 5, 4]
    log = [
        message
        for place, xid in enumerate(xids, 1)
        for message in transaction(place * 100, insert(1), xid=xid)
    ]
    feed(one, [TABLE, *log])
    found = [xid for _, xid, *_ in rows_of(one.take().blocks)[0]]
    full = [2**32 - 1, 2**32 + 3, 2**32 + 2**31, 2**33 - 5, 2**33 + 4]
    assert found == full


@pytest.mark.parametrize("limit", ["BLOCK_COMMANDS", "BLOCK_BYTES"])
@pytest.mark.parametrize("streamed", [False, True])
def test_blocks_are_of_a_bounded_size(
    limit: str, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small transactions share a block, a large one has several, and its parts share none."""
    monkeypatch.setattr(rows, limit, 4 if limit == "BLOCK_COMMANDS" else 40)
    one = planner()
    feed(one, [TABLE])
    counts = [1, 2, 1, 3, 13, 1, 4, 5, 1]
    taken: list[bytes] = []
    for place, count in enumerate(counts, 1):
        log = transaction(place * 100, *[insert(10 + n) for n in range(count)])
        feed(one, log[:-2])
        if streamed and count == 13:
            taken += one.take().blocks
            taken += one.take_part().blocks
        feed(one, log[-2:])
    taken += one.take().blocks
    transactions, commands = rows_of(taken)
    assert [count for *_, count, _ in transactions] == counts
    assert [
        (seqno // 100, place) for seqno, place, *_ in commands
    ] == [(at, n) for at, count in enumerate(counts, 1) for n in range(1, count + 1)]  # fmt: skip
    blocks = list(unpacked(b"".join(taken)))
    assert max(len(block.commands) for block in blocks) == 4
    assert [len(block.commands) for block in blocks if block.last == 500] == [4, 4, 4, 1]
    assert any(len(block.transactions) > 1 for block in blocks)
