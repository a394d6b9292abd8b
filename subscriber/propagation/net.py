"""The net effect of a range of commands, per key: the operations that remain once the whole range is applied.

A Subscriber that changes rows itself needs this: its own accepted rows can be newer than the commands that its
agent has delivered. The Publisher inserts a key and deletes it again, the Subscriber then inserts it; the agent's
first INSERT conflicts with the Subscriber's row. This is no error: in the end the Publisher has the Subscriber's
row too. So all commands up to one of the Subscriber's own transactions are taken together, own commands in their
places, and only the net effect is applied.

Why the result is correct: an own command was accepted because Publisher and Subscriber had the same version of
its row, so no command that the Subscriber still lacks can precede it on that row. Per row the range consists of
own commands, whose effect is already at the Subscriber, then commands of others. Rows are followed through
changes of their key, so a key that was freed and taken again means two rows. A row that was inserted and deleted
within the range never reaches the Subscriber, and rows that an own command touched are left alone.

Pure. Values are compared as text, the form in which the log has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from twopc.articles import Article
from twopc.errors import SubscriptionError
from twopc.propagation import (
    CommandType,
    Format,
    Propagation,
    bitmask,
    changed_columns,
    record_text,
    record_values,
)

Value = bytes | None
Key = tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Positions of the values in an article's commands."""

    columns: int
    """Number of columns that are propagated."""
    key: tuple[int, ...]
    """Positions of the key's columns among the propagated columns (from 0), in the key's order."""
    update: Format
    delete: Format

    @classmethod
    def of(cls, names: Sequence[str], key: Sequence[str], propagation: Propagation) -> Layout:
        """Return the layout for the names of the propagated columns, and of the key's columns."""
        return cls(
            columns=len(names),
            key=tuple(names.index(name) for name in key),
            update=propagation.upd.format,
            delete=propagation.dele.format,
        )

    @classmethod
    def of_article(cls, article: Article, propagation: Propagation) -> Layout:
        """Return the layout of an article's commands."""
        return cls.of([column.name for column in article.value_columns], article.key, propagation)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderedCommand:
    """A command in the Publisher's order."""

    article_id: int
    type: int
    """`CommandType`: one of the three calls."""
    command: bytes
    own: bool = False
    """Whether the Subscriber made the change itself, so that its effect is already there."""

    @property
    def code(self) -> int:
        """Article and type as one number, in the form that `msrepl.apply_net` takes."""
        return self.article_id * 100 + self.type


@dataclass(slots=True, kw_only=True)
class _NetRow:
    """The changes of one row within the range."""

    article_id: int
    origin: Key | None
    """Key under which the Subscriber has the row; None if the row was inserted within the range."""
    values: list[Value] = field(default_factory=list)
    """Latest known values."""
    old: list[Value] | None = None
    """The image before its first update (XCALL)."""
    changed: set[int] = field(default_factory=set)
    deleted: list[Value] | None = None
    """Values of the DELETE command."""
    left_alone: bool = False
    first: int = 0
    last: int = 0


def net_effect(
    layouts: Mapping[int, Layout], changes: Iterable[OrderedCommand]
) -> list[tuple[int, bytes]]:
    """Return codes and commands for `msrepl.apply_net`: deletes, then updates, then inserts.

    Within each kind they keep the Publisher's order across articles, so that parents and children arrive
    in an order that the Publisher could accept.

    Args:
        layouts: by article.

    Raises:
        SubscriptionError: a command is a statement, which cannot be folded.
    """
    fold = _Fold(layouts)
    for place, change in enumerate(changes):
        fold.take(place, change)
    return fold.result()


class _Fold:
    def __init__(self, layouts: Mapping[int, Layout]) -> None:
        self._layouts = layouts
        self._rows: list[_NetRow] = []
        self._at: dict[tuple[int, Key], _NetRow] = {}
        """Rows that commands of others have touched, by current key."""

    def take(self, place: int, change: OrderedCommand) -> None:
        """Fold one command."""
        if change.type not in (CommandType.INSERT, CommandType.UPDATE, CommandType.DELETE):
            raise SubscriptionError(
                f"article {change.article_id} is propagated by statements: what they and the "
                "Subscriber's own changes amount to cannot be worked out; publish it with CALL, SCALL, "
                "MCALL or XCALL"
            )
        layout = self._layouts[change.article_id]
        values = record_values(change.command)
        if change.own:
            self._own(change, layout, values)
        elif change.type == CommandType.INSERT:
            row = _NetRow(article_id=change.article_id, origin=None, values=values, first=place)
            self._rows.append(row)
            self._at[change.article_id, _key_of(layout, values)] = row
        elif change.type == CommandType.UPDATE:
            self._update(place, change, layout, values)
        else:
            key = _original_key(layout, change.type, values)
            row = self._row(place, change.article_id, key)
            del self._at[change.article_id, key]
            row.deleted, row.last = values, place

    def _own(self, change: OrderedCommand, layout: Layout, values: list[Value]) -> None:
        """Leave alone the rows that an own command touched: the Subscriber already has their state."""
        keys = set()
        if change.type != CommandType.INSERT:
            keys.add(_original_key(layout, change.type, values))
        if change.type == CommandType.UPDATE:
            keys.add(_new_key(layout, values))
        for key in keys:
            row = self._at.pop((change.article_id, key), None)
            if row is not None:
                row.left_alone = True
        if change.type == CommandType.INSERT:
            self._at.pop((change.article_id, _key_of(layout, values)), None)

    def _row(self, place: int, article_id: int, key: Key) -> _NetRow:
        row = self._at.get((article_id, key))
        if row is None:
            row = _NetRow(article_id=article_id, origin=key, first=place)
            self._rows.append(row)
            self._at[article_id, key] = row
        return row

    def _update(
        self, place: int, change: OrderedCommand, layout: Layout, values: list[Value]
    ) -> None:
        key, count = _original_key(layout, change.type, values), layout.columns
        row = self._row(place, change.article_id, key)
        row.last = place
        if layout.update is Format.XCALL:
            if row.old is None:
                row.old = values[:count]
            row.values = values[count:]
        elif layout.update is Format.CALL:
            row.values = values[:count]
        else:
            touched = changed_columns(_mask(values))
            row.changed.update(touched)
            if layout.update is Format.MCALL or not row.values:
                row.values = values[:count]
            else:
                for column in touched:
                    row.values[column] = values[column]
        now = _new_key(layout, values)
        if now != key:
            del self._at[change.article_id, key]
            self._at[change.article_id, now] = row

    def result(self) -> list[tuple[int, bytes]]:
        """Return the remaining operations."""
        deletes, updates, inserts = [], [], []
        for row in self._rows:
            if row.left_alone:
                continue
            layout, code = self._layouts[row.article_id], row.article_id * 100
            if row.origin is None:
                if row.deleted is None:
                    inserts.append((row.first, code + CommandType.INSERT, row.values))
            elif row.deleted is not None:
                deletes.append((row.last, code + CommandType.DELETE, _delete(layout, row)))
            else:
                updates.append((row.last, code + CommandType.UPDATE, _net_update(layout, row)))
        return [
            (code, record_text(values))
            for phase in (deletes, updates, inserts)
            for _, code, values in sorted(phase, key=lambda each: each[0])
        ]


def _mask(values: list[Value]) -> bytes:
    """Return the bitmask, which is stored as the text of a bytea."""
    return bytes.fromhex((values[-1] or b"\\x")[2:].decode())


def _key_of(layout: Layout, values: Sequence[Value]) -> Key:
    return tuple(values[place] for place in layout.key)


def _original_key(layout: Layout, kind: int, values: list[Value]) -> Key:
    """Return the key by which a command finds its row."""
    form = layout.update if kind == CommandType.UPDATE else layout.delete
    if form is Format.XCALL:
        return _key_of(layout, values)
    if kind == CommandType.DELETE:
        return tuple(values)
    return tuple(values[layout.columns : layout.columns + len(layout.key)])


def _new_key(layout: Layout, values: list[Value]) -> Key:
    """Return the key that a row has after an update."""
    if layout.update is Format.XCALL:
        return _key_of(layout, values[layout.columns :])
    if layout.update is not Format.SCALL:
        return _key_of(layout, values)
    touched = set(changed_columns(_mask(values)))
    return tuple(
        values[place] if place in touched else old
        for place, old in zip(
            layout.key, _original_key(layout, CommandType.UPDATE, values), strict=True
        )
    )


def _delete(layout: Layout, row: _NetRow) -> list[Value]:
    """Return the values of a DELETE of the row that the Subscriber has."""
    assert row.origin is not None and row.deleted is not None
    if layout.delete is not Format.XCALL:
        return list(row.origin)
    image = list(row.old or row.deleted)
    for place, value in zip(layout.key, row.origin, strict=True):
        image[place] = value
    return image


def _net_update(layout: Layout, row: _NetRow) -> list[Value]:
    """Return the values of an UPDATE from the row that the Subscriber has to the final row."""
    assert row.origin is not None
    if layout.update is Format.XCALL:
        return [*(row.old or []), *row.values]
    if layout.update is Format.CALL:
        return [*row.values, *row.origin]
    mask = b"\\x" + bitmask(row.changed, layout.columns).hex().encode()
    return [*row.values, *row.origin, mask]
