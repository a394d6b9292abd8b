"""The nodes beside the timeline: sessions, waits and committed rows of each node.

Every state is on the page once, with the moments at which it holds; the script only selects which of
them is visible. Without the script the last state is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from twopc.names import VERSION_COLUMN
from twopc.sim.report.html.markup import Content, Markup, join, signs, tag
from twopc.sim.report.moments import NodeState, NodeTable, SessionState
from twopc.sim.report.recorded_orders import PlayedOrder

#: Maximum number of rows shown of a table.
ROWS_MAX = 20
#: Number of digits shown of a row version: enough to distinguish versions.
_DIGITS = 6


def cards(order: PlayedOrder, states: Mapping[str, Sequence[NodeState]]) -> Markup:
    """Return a card for each node."""
    return tag("div", *(_card(order, node, states[node]) for node in order.nodes), class_="nodes")


def _card(order: PlayedOrder, node: str, states: Sequence[NodeState]) -> Markup:
    role = "Publisher" if node == order.publisher else "Subscriber"
    parts: list[Content] = [
        tag("h4", node, tag("span", f" {role}", class_="role")),
        _changing(states, lambda state: state.sessions, _sessions),
        _changing(states, lambda state: state.troubles, _troubles),
        _changing(states, lambda state: state.waits, _waits),
        _changing(states, lambda state: state.prepared, _prepared),
    ]
    names = dict.fromkeys(table.name for state in states for table in state.tables)
    parts += [
        _changing(states, _table_of(name), partial(_rows, publisher=order.publisher))
        for name in names
    ]
    return tag("section", *parts, class_="node", aria_label=f"{node}, {role}")


def _changing(
    states: Sequence[NodeState],
    part: Callable[[NodeState], Any],
    draw: Callable[[Any], Markup],
) -> Markup:
    """Return one part of a card in each of its states; nothing while the part is empty."""
    drawn = []
    until = 0
    for value, same in groupby(states, part):
        since, until = until, until + len([*same])
        if value:
            hidden = until < len(states)
            drawn.append(tag("div", draw(value), data_since=since, data_until=until, hidden=hidden))
    return join(*drawn)


def _sessions(sessions: Sequence[tuple[str, SessionState]]) -> Markup:
    items = [
        tag(
            "li",
            tag("b", name),
            " ",
            tag("span", signs(standing.text), class_=standing.style or None),
        )
        for name, standing in sessions
    ]
    return tag("ul", *items, class_="sessions")


def _troubles(troubles: Sequence[str]) -> Markup:
    return tag("p", *(tag("b", f"✗ {each} ") for each in troubles), class_="bad")


def _waits(waits: Sequence[str]) -> Markup:
    return tag("ul", *(tag("li", signs(f"⧗ {wait}")) for wait in waits), class_="waits")


def _prepared(gids: Sequence[str]) -> Markup:
    listed = [tag("li", tag("code", gid)) for gid in gids]
    return tag("div", tag("b", "✗ still prepared"), tag("ul", *listed), class_="prepared bad")


def _table_of(name: str) -> Callable[[NodeState], NodeTable | None]:
    def find(state: NodeState) -> NodeTable | None:
        return next((table for table in state.tables if table.name == name), None)

    return find


def _rows(table: NodeTable, publisher: str) -> Markup:
    columns = list(table.rows[0]) if table.rows else list((table.before or ({},))[0])
    heads = [tag("th", _title(column), scope="col") for column in columns]
    body = list(_lines(table, columns))
    caption = tag("caption", tag("b", table.name), " ", _compared(table, publisher))
    if not table.rows and not body:
        return tag("table", caption, tag("tbody", tag("tr", tag("td", "no rows", class_="faint"))))
    mark = tag("th", tag("span", "change", class_="unseen"), scope="col", class_="mark")
    head = tag("thead", tag("tr", mark, *heads))
    left = table.count - min(len(table.rows), ROWS_MAX)
    more = tag("p", f"and {left} more rows", class_="faint") if left > 0 else None
    return join(tag("table", caption, head, tag("tbody", *body)), more)


def _compared(table: NodeTable, publisher: str) -> Content:
    if table.publisher is None:
        return None
    if table.publisher == table.rows:
        return tag("span", f"= as at {publisher}", class_="same")
    return tag("span", f"≠ differs from {publisher}", class_="differs")


def _lines(table: NodeTable, columns: Sequence[str]) -> Iterator[Markup]:
    before = _by_key(table, table.before or ())
    other = _by_key(table, table.publisher or ())
    now = _by_key(table, table.rows)
    for key in sorted(now.keys() | before.keys(), key=_order)[:ROWS_MAX]:
        row, was = now.get(key), before.get(key)
        stale = table.publisher is not None and other.get(key) != row
        if row is None:
            gone = before[key]
            cells = [tag("td", tag("del", _value(column, gone.get(column)))) for column in columns]
            yield _line("deleted", cells, stale=stale)
        elif table.before is None or was == row:
            yield _line("", [_cell(column, row.get(column)) for column in columns], stale=stale)
        elif was is None:
            yield _line("new", [_cell(column, row.get(column)) for column in columns], stale=stale)
        else:
            cells = [_changed(column, row.get(column), was.get(column)) for column in columns]
            yield _line("changed", cells, stale=stale)


#: States of a row, each with its sign.
_SIGNS = {"": "", "changed": "●", "new": "+", "deleted": "−"}


def _line(change: str, cells: Sequence[Markup], *, stale: bool) -> Markup:
    """Return a row of the table; `stale`: whether it differs from the Publisher's."""
    words = [*filter(None, [change]), *(["not as at the Publisher"] if stale else [])]
    signs_ = _SIGNS[change] + ("≠" if stale else "")
    text = tag("span", ", ".join(words), class_="unseen") if words else None
    mark = tag("td", signs_, text, class_="mark")
    return tag("tr", mark, *cells, class_=change or None, title=", ".join(words) or None)


def _cell(column: str, value: Any) -> Markup:
    return tag("td", _value(column, value))


def _changed(column: str, value: Any, was: Any) -> Markup:
    if value == was:
        return _cell(column, value)
    text = None
    if column != VERSION_COLUMN:
        text = join(" ", tag("span", "was ", _value(column, was), class_="was"))
    return tag("td", tag("b", _value(column, value)), text)


def _value(column: str, value: Any) -> Markup:
    if value is None:
        return tag("i", "null")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if column == VERSION_COLUMN:
        return tag("code", text[:_DIGITS], title=text)
    return join(text)


def _title(column: str) -> Content:
    return tag("span", "version", title=column) if column == VERSION_COLUMN else column


def _by_key(
    table: NodeTable, rows: Sequence[Mapping[str, Any]]
) -> dict[tuple[str, ...], Mapping[str, Any]]:
    return {tuple(str(row.get(column)) for column in table.key): row for row in rows}


def _order(key: tuple[str, ...]) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key: whole numbers by value, before other values."""
    return tuple((0, int(part), "") if _whole(part) else (1, 0, part) for part in key)


def _whole(text: str) -> bool:
    return text.removeprefix("-").isdecimal()
