"""Recorded runs: histories of runs on PostgreSQL, each with its verdict at that time.

``twopc run`` wrote each ``<name>.jsonl`` as ``history.jsonl`` and ``<name>.verdict.json`` as
``verdict.json``. ``failing`` is lost_update with one wrong expectation, ``wrong_counts`` another
with wrong ones of a generated order and of a twin; ``stuck`` cannot go on; the others are shipped
scenarios. Some are older than groups.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from twopc.sim.report.history import HistoryRecord, by_order, read
from twopc.sim.report.recorded_orders import PlayedOrder, played

HISTORIES = Path(__file__).parent / "histories"
NAMES = sorted(path.stem for path in HISTORIES.glob("*.jsonl"))
#: All histories, including one that is composed of others.
ALL_NAMES = (*NAMES, "several")


@functools.cache
def records(name: str) -> tuple[HistoryRecord, ...]:
    """Return the records of a history."""
    return tuple(several() if name == "several" else read(HISTORIES / f"{name}.jsonl"))


def first(name: str) -> PlayedOrder:
    """Return the first order of a history."""
    return next(played(records(name)))


def made(*happenings: HistoryRecord, **header: object) -> list[HistoryRecord]:
    """Return a history of one order with these records, numbered: alice is at sub1, the office at pub."""
    start = [
        HistoryRecord(
            seq=0,
            t_us=0,
            kind="header",
            data={"schema": 1, "scenario": "made", "file": "made.twopc.yaml", "publisher": "pub"}
            | {"subscribers": ["sub1"], **header},
        ),
        HistoryRecord(
            seq=0,
            t_us=0,
            kind="order",
            order="one",
            data={"sessions": {"alice": "sub1", "office": "pub"}, "isolation": {}},
        ),
    ]
    return [_numbered(record, at) for at, record in enumerate((*start, *happenings))]


def _numbered(record: HistoryRecord, at: int) -> HistoryRecord:
    order = "one" if at else ""
    return dataclasses.replace(record, seq=at, t_us=at * 1000, order=order)


def sent(sql: str, *, session: str = "alice", node: str = "sub1", step: str = "s") -> HistoryRecord:
    """Return the record of a step that is sent."""
    return HistoryRecord(
        seq=0, t_us=0, kind="invoke", session=session, node=node, step=step, sql=sql
    )


def ended(
    kind: str = "ok",
    *,
    session: str = "alice",
    node: str = "sub1",
    step: str = "s",
    **fields: object,
) -> HistoryRecord:
    """Return the record of a step's end."""
    return HistoryRecord(seq=0, t_us=0, kind=kind, session=session, node=node, step=step, **fields)  # type: ignore[arg-type] # each test gives the fields that its kind has


def several() -> list[HistoryRecord]:
    """Return a run with a listed order, a generated one, a twin that failed as it must, and repeats.

    It is made of the orders of ``lost_update`` and ``winner_rolls_back``, under other names.
    """
    header, *_ = records("lost_update")
    (_, first), (_, later) = by_order(records("lost_update"))
    (_, winner), *_ = by_order(records("winner_rolls_back"))
    twin = {"protections": ["version_check"], "must_fail": "no_lost_update"}
    fails = {"notes": ["without version_check no_lost_update fails, as it must"]}
    cell = {"isolation.pub": "serializable"}
    more = {"data": {**(header.data or {}), "seed": 7}}
    counts = {"orders": 36, "run": 4, "infeasible": 12, "behaviours": 3, "left_out": 0, "limit": ""}
    happened = [
        dataclasses.replace(header, **more),
        *_renamed(first, "alice first"),
        *_renamed(first, "every order #1", group="every order", number=1),
        *_renamed(later, "every order #4", group="every order", number=4),
        *_renamed(first[:1], "every order #5", group="every order", number=5),
        HistoryRecord(seq=0, t_us=0, kind="infeasible", order="every order #5", message="b_end"),
        *_renamed(winner, "every order #9", group="every order", number=9),
        *_renamed(first, "every order #17", group="every order", number=17),
        HistoryRecord(
            seq=0,
            t_us=0,
            kind="group",
            data={"group": "every order", **counts},
        ),
        *_renamed(winner, "winner [serializable]", group="winner [serializable]", cell=cell),
        *_renamed(winner, "again", group="again", repeat=1),
        *_renamed(winner, "again (2)", group="again", repeat=2),
        *_renamed(first, "twin of alice first", fails, group="twin of alice first", twin=twin),
        HistoryRecord(
            seq=0,
            t_us=0,
            kind="twin_skipped",
            message="twin of alice first: fence off: not on these servers",
            data={"group": "twin of alice first: fence off"},
        ),
    ]
    return [
        dataclasses.replace(record, seq=at, t_us=at * 1000) for at, record in enumerate(happened)
    ]


def played_again(name: str, times: int) -> list[HistoryRecord]:
    """Return the first order of a history as generated orders, each with another behaviour."""
    header, *rest = records(name)
    (_, of), *_ = by_order(rest)
    found = [header]
    for number in range(1, times + 1):
        for record in _renamed(of, f"every order #{number}", group="every order", number=number):
            another = record.kind == "outcome" and record.session == "bob"
            found.append(
                dataclasses.replace(record, message=f"way {number}") if another else record
            )
    return [dataclasses.replace(record, seq=at) for at, record in enumerate(found)]


def _renamed(
    of: Sequence[HistoryRecord],
    name: str,
    verdict: Mapping[str, object] | None = None,
    **order: object,
) -> Iterator[HistoryRecord]:
    """Yield an order's records under another name, with more data of the order and its verdict."""
    for record in of:
        data: Mapping[str, object] | None = record.data
        if record.kind == "order":
            data = {**(data or {}), **order}
        elif record.kind == "verdict":
            data = {**(data or {}), "name": name, **(verdict or {})}
        yield dataclasses.replace(record, order=name, data=data)


#: Text that would have another meaning if it were not quoted.
HOSTILE = """</script><img src=x onerror=alert(1)> %%{init}%% "q" 'a' & #35; ; `e` \x07\x1b[31m |a|b| {}"""
