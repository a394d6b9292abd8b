"""Differences from a recording: outcomes of transactions and steps, results, and final rows. Without I/O."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from twopc.names import VERSION_COLUMN
from twopc.sim.checkers.records import is_cut
from twopc.sim.report.history import ENDS, HistoryRecord
from twopc.sim.scenario.observe import sums_of

#: Classes of divergence, in the order of a report.
CLASSES = ("rows", "rowcount", "outcome", "error", "state")
#: Number of a query's rows that are shown.
_ROWS_SHOWN = 3
_FAILED = ("error", "timed_out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """One difference from a recording. Attributes are None if unknown or not applicable."""

    kind: str
    """One of `CLASSES`."""
    article: str | None = None
    key: Sequence[str | None] | None = None
    seqno: int | None = None
    gid: str | None = None
    session: str | None = None
    call: str | None = None
    expected: str
    actual: str

    def as_row(self) -> dict[str, Any]:
        """Return all attributes as reports name them; `kind` is called ``class`` there."""
        values = asdict(self)
        key = None if self.key is None else list(self.key)
        return {"class": values.pop("kind"), **values, "key": key}

    def as_json(self) -> dict[str, Any]:
        """Return the known attributes as reports name them."""
        return {name: value for name, value in self.as_row().items() if value is not None}


class OtherStatementsError(Exception):
    """The scenario's statements differ from the recorded ones."""


# -- steps of an order -----------------------------------------------------------------------------


def of_steps(
    recorded: Sequence[HistoryRecord], now: Sequence[HistoryRecord], *, every: bool = True
) -> Iterator[Divergence]:
    """Yield the differences between an order and its recording.

    Args:
        recorded: the records of the recorded order.
        now: the records of its replay.
        every: whether each recorded step must have been played.

    Raises:
        OtherStatementsError: a step's text is not the recorded one.
    """
    before, after = _texts(recorded), _texts(now)
    for at, text in before.items():
        if after.get(at, text) != text:
            raise OtherStatementsError(
                f"{at[0]} said at {at[1]}: {text}; the scenario has: {after[at]}"
            )
    ended = _ends(now)
    for at, was in _ends(recorded).items():
        if at not in ended and not every:
            continue
        session, step = at
        text = " ".join(before.get(at, "").split())
        yield from _of_step(was, ended.get(at), session, f"{step}: {text}" if text else step)
    yield from of_states(final_states(recorded), now)


def transactions(records: Sequence[HistoryRecord]) -> int:
    """Return how many transactions the sessions of an order have ended, with any outcome."""
    return sum(
        (each.data or {}).get("committed") is True
        or each.kind in ("rolled_back", "in_doubt")
        or each.tag == "ROLLBACK"
        for each in records
        if each.session
    )


def statements(records: Sequence[HistoryRecord]) -> int:
    """Return how many steps the sessions of an order have ended."""
    return len(_ends(records))


def _texts(records: Sequence[HistoryRecord]) -> dict[tuple[str, str], str]:
    return {
        (each.session, each.step): each.sql
        for each in records
        if each.kind == "invoke" and each.session and each.step
    }


def _ends(records: Sequence[HistoryRecord]) -> dict[tuple[str, str], HistoryRecord]:
    """Return the record that ended each step of a session; an agent's synchronisation belongs to no session."""
    return {
        (each.session, each.step): each
        for each in records
        if each.kind in ENDS and each.kind != "explain" and each.session and each.step
    }


def _of_step(
    was: HistoryRecord, now: HistoryRecord | None, session: str, call: str
) -> Iterator[Divergence]:
    def divergence(kind: str, expected: str, actual: str, **about: Any) -> Divergence:
        return Divergence(
            kind=kind, session=session, call=call, expected=expected, actual=actual, **about
        )

    if now is None:
        yield divergence("outcome", _ending(was), "not played")
    elif _ending(was) != _ending(now):
        facts = now.conflict or was.conflict or {}
        about: dict[str, Any] = {}
        if facts.get("article"):
            about["article"] = str(facts["article"])
        if isinstance(facts.get("key"), Mapping):
            about["key"] = [str(each) for each in facts["key"].values()]
        failed = was.kind in _FAILED or now.kind in _FAILED
        yield divergence("error" if failed else "outcome", _ending(was), _ending(now), **about)
    elif was.kind == "ok":
        own, other = _rows(was), _rows(now)
        if own != other:
            yield divergence("rows", _shown(own), _shown(other))
        elif (was.rowcount, was.tag) != (now.rowcount, now.tag):
            yield divergence("rowcount", _counted(was), _counted(now))


def _ending(record: HistoryRecord) -> str:
    """Return the outcome of a step, in terms that do not depend on where it is executed."""
    if record.kind == "rejected":
        return f"rejected: {(record.conflict or {}).get('kind', '')}"
    if record.kind == "error":
        return f"error: {record.sqlstate}" if record.sqlstate else "error"
    return record.kind.replace("_", " ")


def _counted(record: HistoryRecord) -> str:
    count = record.rowcount
    if count is None or count < 0:
        return record.tag
    return f"{count} row{'' if count == 1 else 's'}"


def _rows(record: HistoryRecord) -> list[str] | None:
    """Return a query's rows as texts, without row versions, which differ between servers."""
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


# -- final rows ------------------------------------------------------------------------------------


def final_states(records: Sequence[HistoryRecord]) -> list[HistoryRecord]:
    """Return the records of the tables at the end of a history."""
    return [
        each
        for each in records
        if each.kind == "state" and (each.data or {}).get("moment") == "final"
    ]


def of_states(
    expected: Sequence[HistoryRecord], records: Sequence[HistoryRecord]
) -> Iterator[Divergence]:
    """Yield the differences between the tables of two histories, at nodes that both contain, without row versions.

    For a table whose rows a history has not kept completely, only the sums are compared.

    Args:
        expected: `final_states` of a recording.
        records: the records of the other history.
    """
    there = {_place(each): each for each in final_states(records)}
    for was in expected:
        now = there.get(_place(was))
        if now is None:
            continue
        node, table = _place(was)
        divergence = partial(Divergence, kind="state", article=table, call=f"at {node}")
        if is_cut(was) or is_cut(now):
            if (one := _sums(was)) != (two := _sums(now)):
                yield divergence(expected=one, actual=two)
            continue
        own, other = _by_key(was), _by_key(now)
        for key in sorted(own.keys() | other.keys()):
            if own.get(key) != other.get(key):
                yield divergence(key=key, expected=_row(own.get(key)), actual=_row(other.get(key)))


def _place(record: HistoryRecord) -> tuple[str, str]:
    return record.node, str((record.data or {})["table"])


def _sums(record: HistoryRecord) -> str:
    sums = (record.data or {}).get("sums") or sums_of(record.rows or ())
    return f"{record.rowcount} rows, sums {json.dumps(sums, default=str)}"


def _by_key(record: HistoryRecord) -> dict[tuple[str, ...], dict[str, Any]]:
    keys = (record.data or {})["key"]
    return {
        tuple(str(row[each]) for each in keys): {
            name: str(value) for name, value in row.items() if name != VERSION_COLUMN
        }
        for row in record.rows or ()
    }


def _row(values: Mapping[str, str] | None) -> str:
    if values is None:
        return "no row"
    return ", ".join(f"{name} '{value}'" for name, value in values.items())
