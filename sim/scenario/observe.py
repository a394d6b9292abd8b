"""Records of a stage's state in the history: rows, prepared branches, branch markers."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from twopc.errors import TransactionError
from twopc.names import VERSION_COLUMN, BranchId
from twopc.sim.report.history import ROWS_MAX, OrderHistory
from twopc.sim.scenario.expectations import Expect
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.stage import AwayError, NodeContent, Stage
from twopc.sim.scenario.values import Case
from twopc.together import together

Rows = Sequence[Mapping[str, Any]]

#: Interval between checks whether all branches are finished, in seconds.
SETTLE_LOOK_S = 0.005


async def initial_states(scenario: Scenario, stage: Stage, history: OrderHistory) -> None:
    """Record every table at every node before the first step."""
    await _states(scenario, stage, history, scenario.topology.nodes, "initial")


async def state_after(
    scenario: Scenario, stage: Stage, history: OrderHistory, nodes: Sequence[str]
) -> None:
    """Record every table at the Publisher and at `nodes` after a change there."""
    there = tuple(dict.fromkeys((scenario.topology.publisher, *nodes)))
    await _states(scenario, stage, history, there, "committed")


async def write_deliveries(stage: Stage, history: OrderHistory) -> None:
    """Record what the agents have done since the last call."""
    for each in await stage.deliveries():
        history.write(**each.record())


def write_settled(stage: Stage, history: OrderHistory) -> None:
    """Record the branches that recovery has finished since the last call."""
    for each in stage.settled():
        branch = BranchId.parse(each.gid)
        history.write(
            "settled",
            node=each.node,
            gid=str(branch.global_id) if branch is not None else "",
            message=each.reason,
            data={"branch": each.gid, "outcome": str(each.outcome)},
        )


def write_merge_sessions(stage: Stage, history: OrderHistory) -> None:
    """Record the generations of merge sessions that have ended since the last call, and their conflicts."""
    for each in stage.merge_sessions():
        data = {"publisher": each.publisher, "up": dict(each.up), "down": dict(each.down)}
        history.write("merge_session", node=each.subscriber, data=data)
        for conflict in each.conflicts:
            history.write("merge_conflict", node=conflict["node"], data=conflict)


async def settled(scenario: Scenario, stage: Stage, history: OrderHistory, settle_s: float) -> None:
    """Wait until no branch is prepared, at most for `settle_s`."""
    time = asyncio.get_running_loop().time
    until = time() + settle_s
    while any([await stage.prepared(node) for node in scenario.topology.nodes]):
        if time() >= until:
            return
        await stage.recover()
        write_settled(stage, history)
        with contextlib.suppress(TimeoutError):  # there is no event for the end of a branch
            await asyncio.wait_for(asyncio.Event().wait(), SETTLE_LOOK_S)


async def final_states(scenario: Scenario, stage: Stage, history: OrderHistory) -> None:
    """Record the state of every node, and the part of the Publisher's rows that each Subscriber should have."""
    nodes = scenario.topology.nodes
    if not scenario.merges:
        await _branches(stage, history, nodes)
    await _states(scenario, stage, history, nodes, "final")
    for subscriber in filter(stage.subscribes, scenario.topology.subscribers):
        for name, table in scenario.tables.items():
            rows = await stage.part(subscriber, name, _columns(scenario, subscriber, name))
            if rows is not None:
                more = {} if table.merge.realigns else {"stays": True}
                publisher = scenario.topology.publisher
                about = {"moment": "part", "part": subscriber, **more}
                _write(scenario, history, publisher, name, rows, **about)


async def _branches(stage: Stage, history: OrderHistory, nodes: Sequence[str]) -> None:
    """Record the prepared branches and the branch markers at each node."""
    prepared = await together(*(stage.prepared(node) for node in nodes))
    markers = await together(*(stage.markers(node) for node in nodes))
    for node, gids, marks in zip(nodes, prepared, markers, strict=True):
        history.write("prepared", node=node, data={"gids": list(gids)})
        if stage.subscribes(node):
            history.write("markers", node=node, data={"markers": marks})


async def answers(case: Case, stage: Stage, history: OrderHistory) -> None:
    """Run the scenario's own queries and record their results, after all branches have been settled."""
    nodes = [node for node in case.scenario.topology.nodes if stage.subscribes(node)]
    asked: dict[tuple[str, str], None] = {}
    for expect in _expectations(case):
        for query in expect.sql:
            asked |= {(node, query.text): None for node in query.nodes(nodes)}
    for node, text in asked:
        report: dict[str, Any] = {}
        try:
            rows = await stage.query(node, text)
            report = {"rows": tuple(rows), "rowcount": len(rows)}
        except TransactionError as error:
            report = {"sqlstate": error.sqlstate, "message": str(error)}
        history.write("query", node=node, sql=text, data={"check": "sql"}, **report)


def _expectations(case: Case) -> Iterator[Expect]:
    """Yield all `expect` parts that may apply to this case."""
    sources = [case.scenario.expect, case.order.expect]
    if case.twin is not None:
        sources.append(case.twin.expect)
    for source in sources:
        yield source
        yield from source.cells.values()


async def _states(
    scenario: Scenario, stage: Stage, history: OrderHistory, nodes: Sequence[str], moment: str
) -> None:
    """Record every table at these nodes, which are queried concurrently."""
    result = await together(*(_look(scenario, stage, node) for node in nodes))
    for node, look in zip(nodes, result, strict=True):
        seen = history.branches.setdefault(node, set())
        branches = {gid: xid for gid, xid in look.branches.items() if gid not in seen}
        seen.update(branches)
        for name, rows in look.rows.items():
            kept = _kept(scenario, rows)
            more: dict[str, Any] = {"branches": branches, "xids": look.xids[name][:kept]}
            if scenario.merges or scenario.only_reads(node):
                more["versions"] = False
            if scenario.merges and (computed := scenario.tables[name].generated_columns):
                more["generated"] = computed
            if not stage.subscribes(node):
                more["subscribed"] = False
            _write(scenario, history, node, name, rows, moment=moment, **more)


async def _look(scenario: Scenario, stage: Stage, node: str) -> NodeContent:
    tables = {name: _columns(scenario, node, name) for name in scenario.tables}
    try:
        return await stage.look(node, tables)
    except AwayError:
        return NodeContent(rows={}, xids={})


def _columns(scenario: Scenario, node: str, name: str) -> list[str]:
    """Return the columns of a table at a node; at a Subscriber, those that are published."""
    table = scenario.tables[name]
    here = table.columns if node == scenario.topology.publisher else table.published
    return [*(here or table.columns), *([] if scenario.merges else [VERSION_COLUMN])]


def _kept(scenario: Scenario, rows: Rows) -> int:
    """Return the number of rows of a table that are recorded: all of them, as checks compare single rows.

    For a load, which is recorded before and after it, and whose tables may be large, the number is limited.
    """
    return len(rows) if scenario.workload is None else ROWS_MAX


def _write(
    scenario: Scenario, history: OrderHistory, node: str, name: str, rows: Rows, **data: Any
) -> None:
    key, kept = scenario.tables[name].key_columns, _kept(scenario, rows)
    report: dict[str, Any] = {"table": name, "key": list(key), **data}
    if len(rows) > kept:
        report |= {"sums": sums_of(rows), "digests": digests_of(rows, key)}
    history.write("state", node=node, rows=tuple(rows[:kept]), rowcount=len(rows), data=report)


def sums_of(rows: Rows) -> dict[str, str]:
    """Return the sum of each numeric column, ignoring null values."""
    results = {}
    for column in rows[0] if rows else ():
        try:
            values = (Decimal(str(row[column])) for row in rows if row[column] is not None)
            results[column] = f"{sum(values, start=Decimal(0)):f}"
        except InvalidOperation:
            continue  # the column is not numeric
    return results


def digests_of(rows: Rows, key: Sequence[str]) -> dict[str, str]:
    """Return a digest of each column together with the key, equal if all rows have equal values."""
    digests = {column: hashlib.sha256() for column in (rows[0] if rows else ())}
    for row in rows:
        name = repr([row[each] for each in key])
        for column, digest in digests.items():
            digest.update(f"{name} {row[column]!r}\n".encode())
    return {column: digest.hexdigest()[:16] for column, digest in digests.items()}
