"""Uncommitted changes of open transactions, read by each session itself, as no other session sees them.

They are read only if a user plays an order step by step. A transaction is not queried if that could change its
result: a serializable one, one without a change so far, one in a role, or one that was refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from twopc.errors import TransactionError
from twopc.names import VERSION_COLUMN
from twopc.sim.report.event_records import event_of, select
from twopc.sim.report.events import TableLook
from twopc.sim.report.history import HistoryRecord, OrderHistory
from twopc.sim.report.transactions import Author, transactions
from twopc.sim.scenario.lane import Lane
from twopc.sim.scenario.model import Scenario

Rows = Sequence[dict[str, Any]]


async def write_uncommitted(
    scenario: Scenario, lanes: Sequence[Lane], history: OrderHistory
) -> None:
    """Record what the open transactions of `lanes` have changed so far, in one record per table and node."""
    authors = {
        each.session: each
        for each in transactions([event_of(each) for each in history.records])
        if each.steps
    }
    for lane in lanes:
        author = authors.get(lane.name)
        if author is None or not _may_be_asked(lane):
            continue
        for node in lane.nodes:
            for name, table in scenario.tables.items():
                looks = list(_looks(history.records, node, name))
                if scenario.only_reads(node) or not looks:
                    continue
                try:
                    rows = await _seen(lane, node, name)
                except TransactionError:
                    return  # its next step reports the error
                changed, gone = _changed(rows, looks, table.key_columns, author)
                if changed or gone:
                    about = {"table": name, "key": list(table.key_columns), "gone": gone}
                    history.write(
                        "uncommitted", session=lane.name, node=node, rows=tuple(changed), data=about
                    )


def _may_be_asked(lane: Lane) -> bool:
    idle = lane.open and lane.running is None and not lane.refused
    return idle and lane.level != "serializable" and not lane.role


async def _seen(lane: Lane, node: str, name: str) -> Rows:
    if len(lane.nodes) > 1:
        lane.session.at = node
    quoted = name.replace('"', '""')
    text = f'select * from "{quoted}"'  # noqa: S608 - a quoted name of the scenario's
    return (await lane.session.execute(text, {})).rows or ()


def _looks(records: Sequence[HistoryRecord], node: str, name: str) -> Iterator[TableLook]:
    """Yield the records of a table's committed rows at a node."""
    return (each for each in select(records, TableLook) if each.node == node and each.table == name)


def _changed(
    rows: Rows, looks: Sequence[TableLook], key: Sequence[str], author: Author
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of uncommitted versions, and the rows that existed at the transaction's beginning and have
    been deleted.
    """
    known = {str(row.get(VERSION_COLUMN)) for look in looks for row in look.rows}
    there = {_key(row, key) for row in rows}
    before = [look for look in looks if look.seq < author.begun][-1:]
    old = {_key(row, key) for look in before for row in look.rows}
    changed = [dict(row) for row in rows if str(row.get(VERSION_COLUMN)) not in known]
    gone = [
        dict(row) for row in looks[-1].rows if _key(row, key) in old and _key(row, key) not in there
    ]
    return changed, gone


def _key(row: Any, key: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(row.get(name)) for name in key)
