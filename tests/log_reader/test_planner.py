"""The planner on made-up messages: rows do not depend on how messages are cut into blocks."""

from __future__ import annotations

from collections.abc import Iterator
from struct import unpack_from
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from publisher.commands import CommandBuilder
from publisher.log_reader.planner import Planner, full_xid
from publisher.pgoutput import Begin, Change, Commit, Decoded, Relation, RelationColumn
from tests.log_reader.packets import encode
from twopc.articles import Article, Column
from twopc.distributed import DistributedArticle, default_procedures
from twopc.names import VERSION_COLUMN

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
TABLE = Relation(
    500, "public", "item", "f",
    (RelationColumn("id", 23, -1, True), RelationColumn(VERSION_COLUMN, 2950, -1, True)),
)  # fmt: skip
MARKER = Relation(
    501, "msrepl", "branch_marker", "d",
    tuple(RelationColumn(name, 25, -1, name == "gid") for name in ("gid", "originator", "fence")),
)  # fmt: skip
ORIGINATORS = {"link_a": 11, "link_b": 12}


def planner(read_to: int = 0, next_xid: int = 1000) -> Planner:
    """One that knows the article and two originators."""
    return Planner(
        publisher=3,
        builder=CommandBuilder([ARTICLE]),
        originators=ORIGINATORS,
        read_to=read_to,
        next_xid=next_xid,
    )


def insert(key: int) -> Change:
    """A row."""
    return Change(TABLE, "ins", None, [str(key).encode(), b"v"], False)


def mark(role: str | None, *, fence: bool = False) -> Change:
    """A branch marker."""
    originator = None if role is None else role.encode()
    return Change(MARKER, "ins", None, [b"gid", originator, b"t" if fence else b"f"], False)


def transaction(lsn: int, *changes: Change, xid: int = 900) -> list[Decoded]:
    """As the log has it."""
    return [Begin(lsn, lsn * 10, xid), *changes, Commit(lsn, lsn + 8, lsn * 10)]


def feed(one: Planner, messages: list[Decoded]) -> None:
    """In one block."""
    one.feed(one.decoded([encode(message) for message in messages]))


def fields(data: bytes, rows_of: int) -> Iterator[tuple[bytes | None, ...]]:
    """The rows of COPY data without header and trailer."""
    at = 0
    while at < len(data):
        (count,) = unpack_from("!h", data, at)
        assert count == rows_of
        at += 2
        found: list[bytes | None] = []
        for _ in range(count):
            (length,) = unpack_from("!i", data, at)
            at += 4
            found.append(None if length < 0 else data[at : at + length])
            at += max(length, 0)
        yield tuple(found)


def number(field: bytes | None) -> int | None:
    """An integer field of any width."""
    return None if field is None else int.from_bytes(field, "big", signed=True)


def commands_of(data: bytes) -> list[tuple[Any, ...]]:
    """Position, number, originator and text of each command."""
    return [
        (number(seqno), number(place), number(originator), text)
        for _, seqno, place, _, _, originator, _, text in fields(data, 8)
    ]


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
    commands: list[bytes] = []
    transactions: list[bytes] = []
    remarked: list[tuple[int, int | None]] = []
    at = 0
    while at < len(log):
        size = data.draw(st.integers(1, 5))
        feed(cut, log[at : at + size])
        at += size
        if data.draw(st.booleans()):
            taken = cut.take()
            commands += taken.commands
            transactions += taken.transactions
            remarked += taken.remarked
            if cut.open and data.draw(st.booleans()):
                commands += cut.take_part()
    taken = cut.take()
    assert not cut.open
    assert b"".join(commands + taken.commands) == b"".join(expected.commands)
    assert transactions + taken.transactions == expected.transactions
    assert remarked + taken.remarked == expected.remarked
    assert (cut.size, whole.size) == (0, 0)
    assert cut.read_to == whole.read_to


@given(LOG)
def test_every_transaction_tells_its_last_originator(log: list[Decoded]) -> None:
    one = planner()
    feed(one, [TABLE, MARKER, *log])
    batch = one.take()
    remarked = dict(batch.remarked)
    by_seqno: dict[int, list[Any]] = {}
    for seqno, place, originator, text in commands_of(b"".join(batch.commands)):
        by_seqno.setdefault(seqno, []).append((place, remarked.get(seqno, originator), text))
    assert len(by_seqno) == len(batch.transactions)
    for row in fields(b"".join(batch.transactions), 8):
        _, seqno, xid, time, originator, marks, count, length = map(number, row)
        assert seqno is not None
        changes = [
            message
            for message in log[log.index(Begin(seqno, seqno * 10, 900)) :]
            if isinstance(message, Change | Commit)
        ]
        changes = changes[: next(n for n, m in enumerate(changes) if isinstance(m, Commit))]
        roles = [
            change.new[1].decode()
            for change in changes
            if isinstance(change, Change) and change.relation == MARKER
            and change.new is not None and change.new[1] is not None and change.new[2] == b"f"
        ]  # fmt: skip
        found = by_seqno[seqno]
        assert (xid, time) == (900, seqno * 10)
        assert originator == (ORIGINATORS.get(roles[-1]) if roles else None)
        assert marks == len(set(roles))
        assert [place for place, _, _ in found] == list(range(1, (count or 0) + 1))
        assert length == sum(len(text) for *_, text in found)
        assert {each for _, each, _ in found} == {originator}


def test_what_was_stored_before_is_dropped() -> None:
    one = planner(read_to=200)
    log = [transaction(100, insert(1)), transaction(200, insert(2)), transaction(300, insert(3))]
    feed(one, [TABLE, *log[0], *log[1]])
    assert one.transactions == 0
    assert (one.read_to, one.end_lsn) == (200, 208)
    feed(one, log[2])
    assert [text for *_, text in commands_of(b"".join(one.take().commands))] == [b'("3","v")']
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
    assert one.take_part()
    assert one.size == 0
    feed(one, [insert(2)])
    assert one.size == half
    feed(one, [Commit(100, 108, 1000)])
    assert one.size == half
    assert one.take().command_count == 2
    assert one.size == 0


@pytest.mark.parametrize("near", [3, 2**31, 2**32 - 1, 2**32, 5 * 2**32 + 7, 2**40])
@pytest.mark.parametrize("distance", [0, 1, -1, 2**31 - 1, -(2**31)])
def test_a_transaction_id_gets_its_epoch_back(near: int, distance: int) -> None:
    full = near + distance
    assert full_xid(full % 2**32, near) == full


def test_ids_are_followed_over_the_end_of_an_epoch() -> None:
    one = planner(next_xid=2**32 - 2)
    xids = [2**32 - 1, 3, 2**31, 2**32 - 5, 4]
    log = [
        message
        for place, xid in enumerate(xids, 1)
        for message in transaction(place * 100, insert(1), xid=xid)
    ]
    feed(one, [TABLE, *log])
    found = [number(row[2]) for row in fields(b"".join(one.take().transactions), 8)]
    full = [2**32 - 1, 2**32 + 3, 2**32 + 2**31, 2**33 - 5, 2**33 + 4]
    assert found == full
