"""Changes of one relation as messages of the log, complete and damaged, and articles on it."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.distribution.made import VERSION, article, columns, names_of, relation
from twopc.articles import Column
from twopc.publisher.pgoutput import UNCHANGED, RowMessage, Values
from twopc.sim.model.distribution.packets import encode

V1, V2 = b"00000000-0000-0000-0000-000000000001", b"00000000-0000-0000-0000-000000000002"
#: Values that resemble parts of messages, so that some are frequent, and sometimes arbitrary ones.
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
