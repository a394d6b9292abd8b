"""Tests of the decoder: every kind of message is read as written, and invalid ones are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopc.errors import RemoteProtocolError
from twopc.publisher.pgoutput import (
    UNCHANGED,
    BeginMessage,
    CommitMessage,
    Decoded,
    Decoder,
    LogicalMessage,
    OriginMessage,
    RelationColumn,
    RelationMessage,
    RowMessage,
    TruncateMessage,
    TypeMessage,
)
from twopc.sim.model.distribution.packets import encode

LSN = st.integers(0, 2**63 - 1)
TIME = st.integers(-(2**63), 2**63 - 1)
OID = st.integers(1, 2**32 - 1)
NAME = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
VALUE = st.none() | st.binary(max_size=300)


@st.composite
def relations(draw: Any) -> RelationMessage:
    columns = st.builds(
        RelationColumn,
        name=NAME,
        type_oid=OID,
        typmod=st.integers(-1, 2**31 - 1),
        is_key=st.booleans(),
    )
    return RelationMessage(
        oid=draw(OID),
        schema=draw(NAME),
        name=draw(NAME),
        replica_identity=draw(st.sampled_from("dnfi")),
        columns=tuple(draw(st.lists(columns, min_size=1, max_size=20))),
    )


@st.composite
def changes(draw: Any) -> RowMessage:
    relation = draw(relations())
    width = len(relation.columns)
    rows = st.lists(VALUE, min_size=width, max_size=width)
    operation = draw(st.sampled_from(["ins", "upd", "del"]))
    old = None
    if operation == "del" or (operation == "upd" and draw(st.booleans())):
        old = draw(rows)
    new = None if operation == "del" else draw(rows)
    return RowMessage(relation, operation, old, new, old is not None and draw(st.booleans()))


OTHERS = st.one_of(
    st.builds(BeginMessage, LSN, TIME, st.integers(0, 2**32 - 1)),
    st.builds(CommitMessage, LSN, LSN, TIME),
    st.builds(LogicalMessage, st.booleans(), LSN, NAME, st.binary()),
    st.builds(OriginMessage, LSN, NAME),
    st.builds(TypeMessage, OID, NAME, NAME),
    relations(),
)


@given(changes())
def test_a_change_is_read_as_it_was_written(change: RowMessage) -> None:
    decoder = Decoder()
    decoder.decode(encode(change.relation))
    assert decoder.decode(encode(change)) == change


@given(OTHERS)
def test_other_messages_are_read_as_they_were_written(message: Decoded) -> None:
    assert Decoder().decode(encode(message)) == message


@given(st.lists(relations(), max_size=5, unique_by=lambda one: one.oid), st.booleans())
def test_truncate_names_its_relations(found: list[RelationMessage], flag: bool) -> None:
    decoder = Decoder()
    for relation in found:
        decoder.decode(encode(relation))
    message = TruncateMessage(tuple(found), flag, not flag)
    assert decoder.decode(encode(message)) == message


@given(changes() | OTHERS, st.data())
def test_a_message_cut_short_is_refused(message: Decoded, data: Any) -> None:
    decoder = Decoder()
    if isinstance(message, RowMessage):
        decoder.decode(encode(message.relation))
    whole = encode(message)
    end = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(RemoteProtocolError):
        decoder.decode(whole[:end])
    with pytest.raises(RemoteProtocolError):
        decoder.decode(whole + b"\0")


@given(st.binary(max_size=60))
def test_noise_is_refused_or_read_but_nothing_else_is_raised(noise: bytes) -> None:
    try:
        Decoder().decode(noise)
    except RemoteProtocolError as error:
        assert error.definite


def relation(*columns: str) -> RelationMessage:
    return RelationMessage(
        16384, "public", "doc", "f", tuple(RelationColumn(name, 25, -1, False) for name in columns)
    )


def test_what_was_not_logged_again_is_filled_in_from_the_old_row() -> None:
    decoder, doc = Decoder(), relation("id", "title", "body")
    decoder.decode(encode(doc))
    old = [b"1", b"a", b"long" * 1000]
    sent = RowMessage(doc, "upd", old, [b"1", b"b", UNCHANGED], False)
    found = decoder.decode(encode(sent))
    assert found == RowMessage(doc, "upd", old, [b"1", b"b", b"long" * 1000], False)


@pytest.mark.parametrize("old", [None, [b"1", None, None]])
def test_without_the_old_row_it_stays_unchanged(old: list[bytes | None] | None) -> None:
    decoder, doc = Decoder(), relation("id", "title", "body")
    decoder.decode(encode(doc))
    sent = RowMessage(doc, "upd", old, [b"2", b"b", UNCHANGED], old is not None)
    found = decoder.decode(encode(sent))
    assert isinstance(found, RowMessage)
    assert found.new is not None
    assert found.new[2] is UNCHANGED


def test_a_value_that_looks_like_the_mark_is_a_value() -> None:
    decoder, doc = Decoder(), relation("id")
    decoder.decode(encode(doc))
    text = bytes(UNCHANGED)
    found = decoder.decode(b"I\0\0\x40\0N\0\1t" + len(text).to_bytes(4, "big") + text)
    assert isinstance(found, RowMessage)
    assert found.new == [text]
    assert found.new[0] is not UNCHANGED


def test_a_relation_that_was_not_announced_is_refused() -> None:
    doc = relation("id")
    with pytest.raises(RemoteProtocolError, match="relation 16384"):
        Decoder().decode(encode(RowMessage(doc, "ins", None, [b"1"], False)))


def test_a_relation_announced_again_replaces_the_first() -> None:
    decoder, narrow, wide = Decoder(), relation("id"), relation("id", "title")
    decoder.decode(encode(narrow))
    decoder.decode(encode(wide))
    found = decoder.decode(encode(RowMessage(wide, "ins", None, [b"1", None], False)))
    assert isinstance(found, RowMessage)
    assert found.relation == wide


@pytest.mark.parametrize("kind", [b"S", b"E", b"c", b"A", b"b", b"P", b"K", b"r", b"p", b"?"])
def test_messages_of_other_protocols_are_refused(kind: bytes) -> None:
    with pytest.raises(RemoteProtocolError, match="protocol 1"):
        Decoder().decode(kind + bytes(40))


def test_binary_values_are_refused() -> None:
    decoder, doc = Decoder(), relation("id")
    decoder.decode(encode(doc))
    with pytest.raises(RemoteProtocolError, match="as text"):
        decoder.decode(b"I\0\0\x40\0N\0\1b\0\0\0\1\x01")
