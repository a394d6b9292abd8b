"""Tests that commands read by learned expressions equal those of decoder and builder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.distribution.made import (
    VERSION,
    article,
    columns,
    delete,
    insert,
    names_of,
    propagation,
    relation,
    update,
)
from twopc.articles import Column
from twopc.distributed_article import DistributedArticle
from twopc.errors import RemoteProtocolError
from twopc.publisher.commands import Command, CommandBuilder, CommandReader
from twopc.publisher.pgoutput import (
    UNCHANGED,
    Decoded,
    Decoder,
    RelationMessage,
    RowMessage,
    Values,
)
from twopc.sim.model.distribution.packets import encode

V1, V2 = b"00000000-0000-0000-0000-000000000001", b"00000000-0000-0000-0000-000000000002"
#: Frequent lengths, so that expressions are learned, and sometimes arbitrary values.
OFTEN = st.sampled_from(
    [b"", b"1", b"22", b"333", b"tt", b"n", b"u", b"N\0\4", b't\0\0\0\1"', b'"', b"\\", b"x" * 34]
)
VALUE = OFTEN | st.none() | st.sampled_from([b"y" * 92, b"z" * 300, b"\0" * 300]) | st.binary()
ARTICLES = (
    article(*columns(4)),
    article(*columns(4), key=("c3", "c1")),
    article(*columns(4), key=(VERSION.name,)),
    article(
        Column(name="c2", type="numeric"), VERSION, key=("c2",), left_out=("c1",), generated=("c3",)
    ),
    article(
        Column(name="c3", type="text"), VERSION, Column(name="c1", type="integer"),
        left_out=("c2",), key=("c1",),
    ),
)  # fmt: skip
HERE = relation(*names_of(ARTICLES[0]))


@contextmanager
def learning(after: int = 1, lengths: int = 16) -> Iterator[None]:
    """Learn expressions from single messages, and examine every message."""
    with (
        patch("twopc.publisher.commands.reader._LEARNED_AFTER", after),
        patch("twopc.publisher.commands.reader._LEARNED_AFTER_PER_COLUMN", 0),
        patch("twopc.publisher.commands.reader._SAMPLED", 1),
        patch("twopc.publisher.commands.learned_shapes._LENGTHS_MAX", lengths),
    ):
        yield


class Both:
    """A reader beside the decoder and builder with which it must agree."""

    def __init__(self, *articles: DistributedArticle, here: RelationMessage = HERE) -> None:
        self.builder = CommandBuilder(articles)
        self.decoder = Decoder()
        self.reader = CommandReader(Decoder(), self.builder)
        self.read(encode(here))

    def read(self, data: bytes) -> Decoded | Command:
        """Return the reader's result, compared with that of decoder and builder."""
        try:
            expected = self.decoder.decode(data)
        except RemoteProtocolError as error:
            with pytest.raises(RemoteProtocolError) as caught:
                self.reader.read(data)
            assert str(caught.value) == str(error)
            raise
        found = self.reader.read(data)
        if type(found) is tuple:
            assert isinstance(expected, RowMessage)
            assert (found,) == tuple(self.builder.commands(expected))
        else:
            assert found == expected
            if isinstance(found, RowMessage):
                assert isinstance(expected, RowMessage)
                assert _marks(found.new) == _marks(expected.new)
        return found

    def learned(self, *messages: bytes) -> bool:
        """Return whether the last message is read by a learned expression."""
        found = [self.read(message) for message in messages]
        return type(found[-1]) is tuple


def _marks(values: Values | None) -> list[bool]:
    return [value is UNCHANGED for value in values or ()]


@st.composite
def messages(draw: Any) -> bytes:
    """Draw a change."""
    rows = st.lists(draw(st.sampled_from([OFTEN, VALUE])), min_size=4, max_size=4)
    new = draw(rows)
    operation = draw(st.sampled_from(["ins", "upd", "upd", "upd", "del"]))
    old: Values | None = None
    if operation != "ins":
        old = draw(rows) if draw(st.booleans()) else [*new]
        for place in draw(st.sets(st.integers(0, 3))):
            old[place] = draw(VALUE)
        if operation == "upd" and not draw(st.integers(0, 9)):
            old = None
    is_key = old is not None and not draw(st.integers(0, 5))
    change = RowMessage(HERE, operation, old, None if operation == "del" else new, is_key)
    sent = None
    if operation == "upd" and draw(st.booleans()):
        sent = [UNCHANGED if draw(st.booleans()) else value for value in new]
    return encode(change, sent)


def damaged(data: bytes, at: int, how: int, put: bytes) -> bytes:
    """Return a message that is cut short, changed, shortened or extended at a position."""
    at %= len(data)
    return data[:at] if how == 3 else data[:at] + put + data[at + how :]


DAMAGE = st.tuples(st.integers(0, 999), st.integers(0, 3), OFTEN | st.binary(max_size=2))


@given(
    st.lists(messages(), min_size=1, max_size=5),
    st.lists(DAMAGE, max_size=8),
    st.sampled_from(ARTICLES),
    st.sampled_from([1, 2]),
    st.sampled_from([0, 2, 16]),
)
def test_any_messages(
    found: Sequence[bytes],
    damage: Sequence[tuple[int, int, bytes]],
    made: DistributedArticle,
    after: int,
    lengths: int,
) -> None:
    """The reader agrees for any messages, learned in any order, and for similar and damaged ones."""
    with learning(after, lengths):
        both = Both(made)
        for data in [*found] * 3:
            both.read(data)
        for data in found:
            for each in damage:
                with suppress(RemoteProtocolError):
                    both.read(damaged(data, *each))
        for data in found:
            both.read(data)


def test_a_length_that_is_not_that_of_its_value() -> None:
    """A wrong length is refused, whether an expression lists the lengths or not."""
    for lengths in (0, 16):
        with learning(lengths=lengths):
            both = Both(ARTICLES[0])
            row = [b"1", b"2", b"3" * 20, V1]
            for data in (
                encode(insert(HERE, row)),
                encode(delete(HERE, row)),
                encode(update(HERE, row, [b"1", b"4", *row[2:]])),
            ):
                assert both.learned(data, data, data)
                for at in range(len(data)):
                    with pytest.raises(RemoteProtocolError):
                        both.read(data[:at])
                    for change in (-1, 1):
                        other = (data[at] + change) % 256
                        with suppress(RemoteProtocolError):
                            both.read(data[:at] + bytes([other]) + data[at + 1 :])


def test_an_old_row_without_its_version_is_none() -> None:
    """An old row whose version is NULL is not read as one with a version."""
    with learning():
        both = Both(ARTICLES[0])
        first, null, second = ([b"1", b"2", b"3", version] for version in (V1, None, V2))
        for new in (null, second):
            assert both.learned(*[encode(update(HERE, first, new))] * 3)
        assert not both.learned(*[encode(update(HERE, null, second))] * 3)


def rows(count: int, seed: int = 1) -> list[list[bytes | None]]:
    """Return rows with typical values."""
    chance = Random(seed)
    return [
        [
            b"%d" % chance.randint(1, 100_000),
            b"%d" % chance.randint(0, 999),
            b"item number %d" % chance.randint(1, 100_000),
            b"%032x" % chance.getrandbits(128),
        ]
        for _ in range(count)
    ]


@pytest.mark.parametrize("made", ARTICLES)
def test_most_of_what_is_usual_is_read_the_short_way(made: DistributedArticle) -> None:
    both, found = Both(made), rows(3000)
    new = [[row[0], b"%d" % (int(row[1] or 0) + 1), row[2], V2] for row in found]
    for data in (
        [encode(insert(HERE, row)) for row in found],
        [encode(update(HERE, row, now)) for row, now in zip(found, new, strict=True)],
        [encode(delete(HERE, row)) for row in found],
    ):
        kinds = [type(both.read(each)) for each in data]
        assert kinds[-1000:].count(tuple) > 970


def test_long_texts_of_any_length() -> None:
    """Long texts of many lengths are read by expressions, except texts with quotes or backslashes."""
    both, chance = Both(ARTICLES[0]), Random(1)
    kinds = []
    for row in rows(1000):
        row[2] = b"a t n" * chance.randint(0, 200)
        now = [row[0], b"-1", row[2], V2]
        both.read(encode(insert(HERE, row)))
        both.read(encode(update(HERE, row, now)))
        # a large value stored out of line is not sent again
        sent = [*now[:2], UNCHANGED, now[3]]
        kinds.append(type(both.read(encode(update(HERE, row, now), sent))))
        for value in (b'"', b"\\", b"\0"):
            other = [*now[:2], (row[2] or b"") + value, V2]
            assert type(both.read(encode(update(HERE, row, other)))) is RowMessage
    assert kinds[-500:].count(tuple) > 450


def test_a_quote_is_not_for_the_short_way_unless_it_stays_where_it_is() -> None:
    with learning():
        both = Both(ARTICLES[0])
        plain, quoted = [b"1", b"2", b"text", V1], [b"1", b"2", b'"ex"', V1]
        assert both.learned(encode(insert(HERE, plain)), *[encode(insert(HERE, plain))] * 2)
        assert not both.learned(encode(insert(HERE, quoted)))
        for old in (plain, quoted):
            data = encode(update(HERE, old, [b"1", b"3", old[2], V2]))
            assert both.learned(data, data, data)


def test_null() -> None:
    """A NULL that stays, appears or disappears is read by an expression."""
    with learning():
        both = Both(ARTICLES[0])
        for old, new in ((None, None), (b"1", None), (None, b"1")):
            change = update(HERE, [b"1", old, b"2", V1], [b"1", new, b"3", V2])
            assert both.learned(*[encode(change)] * 3)
        assert both.learned(*[encode(insert(HERE, [b"1", None, None, V1]))] * 3)


def test_a_value_that_did_not_change_is_not_sent() -> None:
    """An unchanged column is recognised in a message whose shape has a changed one."""
    with learning():
        both = Both(ARTICLES[0])
        old = [b"1", b"2", b"3", V1]
        assert both.learned(*[encode(update(HERE, old, [b"1", b"4", b"3", V2]))] * 3)
        found = both.read(encode(update(HERE, old, [b"1", b"2", b"3", V2])))
        assert type(found) is RowMessage


def test_a_relation_that_is_announced_again() -> None:
    """An expression is kept if a relation is announced unchanged, and dropped if it has changed."""
    with learning():
        both = Both(ARTICLES[0])
        data = encode(insert(HERE, [b"1", b"2", b"3", V1]))
        assert both.learned(data, data, data)
        both.read(encode(HERE))
        assert both.learned(data)
        names = [column.name for column in HERE.columns]
        both.read(encode(relation(names[1], names[0], *names[2:])))
        assert not both.learned(data)
        assert both.learned(data, data)


@pytest.mark.parametrize(
    "made",
    [
        (article(*columns(4)), article(*columns(4), number=8)),
        (article(*columns(4), row_filter="c1 > 1"),),
        (article(*columns(4), how=propagation("SQL", "MCALL", "XCALL")),),
        (article(*columns(4), how=propagation("NONE", "NONE", "NONE")),),
        (article(*columns(3)),),  # does not match
        (
            article(
                Column(name="c1", type="integer", generated="c2 + 1"),
                *columns(4)[1:],
                generated=("c1",),
            ),
        ),
        (article(*columns(4), table="another"),),
    ],
)
def test_what_has_no_short_way(made: Sequence[DistributedArticle]) -> None:
    with learning():
        both = Both(*made)
        row, now = [b"1", b"2", b"3", V1], [b"1", b"2", b"4", V2]
        for change in (insert(HERE, row), update(HERE, row, now), delete(HERE, row)):
            assert not both.learned(*[encode(change)] * 5)


def test_where_nothing_comes_again_nothing_is_tried() -> None:
    """Without repeating shapes, learning pauses, keeps little data, and resumes later."""
    with patch("twopc.publisher.commands.reader._RESTED_FOR", 10):
        both, chance = Both(ARTICLES[0]), Random(1)
        learner = None
        for _ in range(5000):
            row: list[bytes | None] = [b"x\0" * chance.randint(1, 2000) for _ in range(4)]
            assert type(both.read(encode(insert(HERE, row)))) is RowMessage
            learner = learner or both.reader._learners[b"I\0\0\0\1"]
            assert learner is not None
            assert len(learner.reads) <= 8
            assert all(len(each.lengths) <= 16 for each in learner._seen)
        plain = encode(insert(HERE, [b"1", b"2", b"3", V1]))
        assert both.learned(*[plain] * 3000)


def test_many_shapes() -> None:
    """Only a bounded number of recent shapes has expressions."""
    with learning():
        wide = article(*columns(12))
        here = relation(*names_of(wide))
        both = Both(wide, here=here)
        for mask in range(200):
            row = [b"%d" % mask if mask >> bit & 1 or not bit else None for bit in range(11)]
            data = encode(insert(here, [*row, V1]))
            assert both.learned(data, data, data)
            learner = both.reader._learners[b"I\0\0\0\1"]
            assert learner is not None
            assert len(learner.reads) == len(learner._kept) <= 8
