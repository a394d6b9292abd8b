"""Random histories of a table that the Publisher and one Subscriber both change, executed by a model.

The Subscriber's own changes are accepted as by immediate updating: both sites must have the same
version of the row, and both are changed at once. The Publisher's changes reach the Subscriber only
when the test delivers them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.propagation.here import call, mask
from twopc.propagation import CommandType, Format

ARTICLE = 7
#: Key, a unique value or None, a plain value. The row's version is kept separately.
Row = tuple[int, int | None, int]
Table = dict[int, tuple[Row, int]]


class ClashError(Exception):
    """Two rows have the same key or the same unique value."""


class MissingError(Exception):
    """The row of a command does not exist."""


@dataclass(slots=True)
class Entry:
    """A command of the log: an operation with the row before and after it."""

    own: bool
    old: Row | None
    new: Row | None

    @property
    def type(self) -> int:
        """The type of the command."""
        if self.old is None:
            return CommandType.INSERT
        return CommandType.DELETE if self.new is None else CommandType.UPDATE

    def command(self, update: Format, delete: Format) -> bytes:
        """Return the command as it is stored."""
        old, new = self.old, self.new
        if old is None:
            assert new is not None
            return call(*new)
        if new is None:
            return call(*old) if delete is Format.XCALL else call(old[0])
        changed = [n for n, (a, b) in enumerate(zip(old, new, strict=True), 1) if a != b]
        match update:
            case Format.CALL:
                return call(*new, old[0])
            case Format.XCALL:
                return call(*old, *new)
        sent = [v if n in changed or update is Format.MCALL else None for n, v in enumerate(new, 1)]
        return call(*sent, old[0], mask(3, *changed))


@dataclass(slots=True)
class History:
    """The log of changes, and the rows at both sites."""

    begin: list[Row] = field(default_factory=list)
    publisher: Table = field(default_factory=dict)
    subscriber: Table = field(default_factory=dict)
    log: list[Entry] = field(default_factory=list)
    versions: int = 0

    def change(self, own: bool, old_key: int | None, new: Row | None) -> bool:
        """Make one change; return False if it is refused."""
        at_publisher = self.publisher.get(old_key) if old_key is not None else None
        if old_key is not None and at_publisher is None:
            return False
        if own and old_key is not None and self.subscriber.get(old_key) != at_publisher:
            return False
        old = at_publisher[0] if at_publisher is not None else None
        if old == new:
            return False
        for table in (self.publisher, self.subscriber) if own else (self.publisher,):
            others = {key: held for key, held in table.items() if key != old_key}
            if new is not None and clashes(others, new):
                return False
        self.versions += 1
        for table in (self.publisher, self.subscriber) if own else (self.publisher,):
            if old_key is not None:
                del table[old_key]
            if new is not None:
                table[new[0]] = (new, self.versions)
        self.log.append(Entry(own, old, new))
        return True


def clashes(table: Table, row: Row) -> bool:
    """Return whether the row's key or unique value is already in the table."""
    return row[0] in table or (
        row[1] is not None and row[1] in {held[1] for held, _ in table.values()}
    )


_rows = st.tuples(st.integers(1, 4), st.none() | st.integers(1, 4), st.integers(0, 2))
_changes = st.tuples(st.booleans(), st.none() | st.integers(1, 4), st.none() | _rows)


@st.composite
def histories(draw: Callable[..., object], size_max: int = 14) -> History:
    """Draw a history that begins with the same rows at both sites."""
    made = History()
    for row in draw(st.lists(_rows, max_size=4)):  # type: ignore[attr-defined] # hypothesis types draw so
        if not clashes(made.subscriber, row):
            made.versions += 1
            made.publisher[row[0]] = made.subscriber[row[0]] = (row, made.versions)
            made.begin.append(row)
    for own, old_key, new in draw(st.lists(_changes, max_size=size_max)):  # type: ignore[attr-defined] # as above
        if old_key is not None or new is not None:
            made.change(own, old_key, new)
    return made
