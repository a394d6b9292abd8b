"""All nodes at one moment, side by side: sessions, waits, and committed and uncommitted rows.

Drawn for the terminal from the records up to that moment; this module knows no database.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twopc.names import VERSION_COLUMN
from twopc.sim.report.event_records import header_of
from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.moments import NodeState, NodeTable, UncommittedRow, state_at
from twopc.sim.report.recorded_orders import PlayedOrder
from twopc.sim.report.timeline import STYLES

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text

#: Minimum width of a node; if there is less room, the next node is drawn below.
_NODE_MIN = 30
#: Maximum number of rows shown of a table.
_ROWS_SHOWN = 8


def panel(records: Sequence[HistoryRecord], width: int = 100) -> RenderableType:
    """Return every node as of the last record, drawn side by side.

    Args:
        records: the records of one order, after the run's header if there is one.
        width: the number of columns available.
    """
    from rich.console import Group
    from rich.panel import Panel
    from rich.table import Table as Grid
    from rich.text import Text

    header = header_of(records)
    of_order = records[1:] if header else records
    name = of_order[0].order if of_order else ""
    order = PlayedOrder(name=name, header=header, records=of_order)
    last = of_order[-1].seq if of_order else 0
    states = state_at(order, last)
    beside = max(1, min(len(states), width // _NODE_MIN))
    drawn = [
        Panel(
            Group(*(_lines(state, order.publisher) or [Text("nothing yet", style="dim")])),
            title=f"{node}{' (Publisher)' if node == order.publisher else ''}",
            title_align="left",
            border_style="dim",
        )
        for node, state in states.items()
    ]
    rows = []
    for first in range(0, len(drawn), beside):
        grid = Grid.grid(expand=True)
        for _ in range(beside):
            grid.add_column(ratio=1)
        grid.add_row(*drawn[first : first + beside])
        rows.append(grid)
    return Group(*rows)


def _lines(state: NodeState, publisher: str) -> list[RenderableType]:
    from rich.text import Text

    lines: list[RenderableType] = [
        Text.assemble((name, "bold"), " ", (standing.text, STYLES[standing.style]))
        for name, standing in state.sessions
    ]
    lines += [Text(f"✗ {each}", style=STYLES["bad"]) for each in state.troubles]
    lines += [Text(f"⧗ {each}", style=STYLES["wait"]) for each in state.waits]
    lines += [Text(f"prepared {gid}", style=STYLES["bad"]) for gid in state.prepared or ()]
    for table in state.tables:
        lines += _table(table, publisher)
    return lines


def _table(table: NodeTable, publisher: str) -> Iterator[Text]:
    """Yield the committed rows, each with the uncommitted versions of open transactions below it.

    ≠ marks rows that differ from the Publisher's, ● rows that have just changed, ○ uncommitted rows.
    """
    from rich.text import Text

    differs = table.publisher is not None and table.publisher != table.rows
    text = f"  ≠ differs from {publisher}" if differs else ""
    yield Text.assemble((table.name, "underline"), (text, STYLES["wait"]))
    other = _by_key(table, table.publisher or ())
    before = _by_key(table, table.before or ())
    unseen: dict[tuple[Any, ...], list[UncommittedRow]] = {}
    for one in table.uncommitted:
        unseen.setdefault(tuple(one.row.get(name) for name in table.key), []).append(one)
    for key, row in list(_by_key(table, table.rows).items())[:_ROWS_SHOWN]:
        cells = _cells(row)
        stale = table.publisher is not None and other.get(key) != row
        changed = table.before is not None and before.get(key) != row
        mark = "≠" if stale else "●" if changed else " "
        yield Text(f"{mark} {cells}", style=STYLES["wait"] if stale else "")
        for one in unseen.pop(key, ()):
            yield _uncommitted(one)
    for one in (each for added in unseen.values() for each in added):
        yield _uncommitted(one)
    if not table.rows:
        yield Text("  no rows", style="dim")
    if table.count > _ROWS_SHOWN:
        yield Text(f"  and {table.count - _ROWS_SHOWN} more", style="dim")


def _uncommitted(one: UncommittedRow) -> Text:
    from rich.text import Text

    what = "deleted" if one.gone else _cells(one.row)
    return Text(f"○ {what}  ({one.session}, not committed)", style=STYLES["note"])


def _cells(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in row.items() if name != VERSION_COLUMN)


def _by_key(table: NodeTable, rows: Sequence[Mapping[str, Any]]) -> dict[tuple[Any, ...], Any]:
    return {tuple(row.get(name) for name in table.key): row for row in rows}
