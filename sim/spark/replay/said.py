"""What sessions were told when it was recorded, against what they are told now. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twopc.names import VERSION_COLUMN
from twopc.sim.report.history import ENDS, Record
from twopc.sim.workload.diverging import final, states

#: Classes of divergence, in the order in which they are told.
CLASSES = ("rows", "rowcount", "outcome", "error", "state")
#: So many rows of a query are told.
_ROWS_SHOWN = 3
_FAILED = ("error", "timed_out")
Found = dict[str, Any]


class OtherStatementsError(Exception):
    """The scenario says something else than was recorded."""


def differences(
    recorded: Sequence[Record], now: Sequence[Record], *, every: bool = True
) -> Iterator[Found]:
    """Where one order came out otherwise.

    Args:
        recorded: the order's records.
        now: those of its replay.
        every: each step that was recorded must have been played.

    Returns:
        `class`, `article`, `key`, `session`, `call`, `expected`, `actual`; what is not known is left out.

    Raises:
        OtherStatementsError: a step's text is not what was recorded.
    """
    before, after = _texts(recorded), _texts(now)
    for at, text in before.items():
        if after.get(at, text) != text:
            raise OtherStatementsError(
                f"{at[0]} said at {at[1]}: {text}; the scenario has: {after[at]}"
            )
    told = _ends(now)
    for at, was in _ends(recorded).items():
        if at not in told and not every:
            continue
        found = _differs(was, told.get(at))
        if found is not None:
            session, step = at
            text = " ".join(before.get(at, "").split())
            yield {"session": session, "call": f"{step}: {text}" if text else step, **found}
    yield from states(final(recorded), now)


def transactions(records: Sequence[Record]) -> int:
    """How many transactions sessions have ended in an order, whatever became of them."""
    return sum(
        (each.data or {}).get("committed") is True
        or each.kind in ("rolled_back", "in_doubt")
        or each.tag == "ROLLBACK"
        for each in records
        if each.session
    )


def statements(records: Sequence[Record]) -> int:
    """How many steps sessions have said in an order."""
    return len(_ends(records))


def _texts(records: Sequence[Record]) -> dict[tuple[str, str], str]:
    return {
        (each.session, each.step): each.sql
        for each in records
        if each.kind == "invoke" and each.session and each.step
    }


def _ends(records: Sequence[Record]) -> dict[tuple[str, str], Record]:
    """How each step ended that a session said; an agent's sync is nobody's."""
    return {
        (each.session, each.step): each
        for each in records
        if each.kind in ENDS and each.kind != "explain" and each.session and each.step
    }


def _differs(was: Record, now: Record | None) -> Found | None:
    if now is None:
        return {"class": "outcome", "expected": _said(was), "actual": "not played"}
    if _said(was) != _said(now):
        failed = was.kind in _FAILED or now.kind in _FAILED
        about = now.conflict or was.conflict or {}
        found: Found = {"class": "error" if failed else "outcome"}
        if about.get("article"):
            found["article"] = str(about["article"])
        if isinstance(about.get("key"), Mapping):
            found["key"] = [str(each) for each in about["key"].values()]
        return {**found, "expected": _said(was), "actual": _said(now)}
    if was.kind != "ok":
        return None
    mine, other = _rows(was), _rows(now)
    if mine != other:
        return {"class": "rows", "expected": _shown(mine), "actual": _shown(other)}
    if (was.rowcount, was.tag) != (now.rowcount, now.tag):
        return {"class": "rowcount", "expected": _counted(was), "actual": _counted(now)}
    return None


def _said(record: Record) -> str:
    """How it ended, as far as that is the same wherever it is carried out."""
    if record.kind == "rejected":
        return f"rejected: {(record.conflict or {}).get('kind', '')}"
    if record.kind == "error":
        return f"error: {record.sqlstate}" if record.sqlstate else "error"
    return record.kind.replace("_", " ")


def _counted(record: Record) -> str:
    count = record.rowcount
    if count is None or count < 0:
        return record.tag
    return f"{count} row{'' if count == 1 else 's'}"


def _rows(record: Record) -> list[str] | None:
    """A query's rows as texts; versions of rows are each server's own."""
    if record.rows is None:
        return None
    return [
        ", ".join(
            f"{name} {'NULL' if value is None else repr(str(value))}"
            for name, value in row.items()
            if name != VERSION_COLUMN
        )
        for row in json.loads(json.dumps(record.rows, default=str))
    ]


def _shown(rows: list[str] | None) -> str:
    if rows is None:
        return "no result"
    if not rows:
        return "no row"
    more = f" and {len(rows) - _ROWS_SHOWN} more" if len(rows) > _ROWS_SHOWN else ""
    return " | ".join(rows[:_ROWS_SHOWN]) + more
