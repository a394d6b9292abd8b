"""Checks of workloads: whether they can be played, and refer to existing names.

Part of `twopc.sim.scenario.meaning`; records problems in the `Document` and changes nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from twopc.sim.scenario import sqltext
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.reach import check_agent
from twopc.sim.scenario.steps import Step
from twopc.sim.scenario.steps_meaning import check_transactions
from twopc.sim.scenario.text import Document, Path
from twopc.sim.scenario.workload import DRAWN, Keys, LoadEvent, Workload


def check_load(document: Document, scenario: Scenario) -> None:
    """Record the errors of the workload, and of keys that require one."""
    workload = scenario.workload
    if workload is None:
        if scenario.thresholds:
            document.error(("thresholds",), "'thresholds' go with a workload", key=True)
        if scenario.replay is not None:
            document.error(("replay",), "a replay is of a workload", key=True)
        check_transactions(document, scenario.transactions, ("transactions",))
        return
    if scenario.replay is not None and not scenario.distributes:
        document.error(("replay",), "a replay delivers, and nothing is distributed here", key=True)
    if scenario.orders:
        document.error(("workload",), "a file has orders or a workload, not both", key=True)
    check_transactions(document, scenario.transactions, ("transactions",))
    check_transactions(document, workload.transactions, ("workload", "transactions"))
    _values(document, scenario.transactions, ("transactions",))
    _values(document, workload.transactions, ("workload", "transactions"))
    if not workload.hole:
        _workload(document, scenario, workload)


def _workload(document: Document, scenario: Scenario, workload: Workload) -> None:
    at: Path = ("workload",)
    pairs = (
        ("clients", workload.clients, "rate", workload.rate),
        ("for", workload.for_ms, "transactions", workload.count),
    )
    for one, value, other, second in pairs:
        if {one, other} & {*workload.holes}:
            continue
        if value is not None and second is not None:
            document.error((*at, other), f"'{one}' and '{other}' exclude each other", key=True)  # fmt: skip
        elif value is None and second is None:
            what = "a number of transactions" if other == "transactions" else f"'{other}'"
            document.error(at, f"a workload needs '{one}' or {what}", key=True)
    for word, number in (("clients", workload.clients), ("transactions", workload.count)):
        if number is not None and number < 1:
            document.error((*at, word), f"'{word}' is 1 at least")
    known = {**scenario.transactions, **workload.transactions}
    if not known and "transactions" not in workload.holes:
        document.error(at, "there are no transactions: 'transactions' says what they do", key=True)
    for name in workload.mix if known else ():
        if name not in known:
            document.unknown((*at, "mix", name), "transaction", name, known, key=True)
    for node in workload.nodes:
        if node not in scenario.topology.nodes:
            document.unknown((*at, "nodes", node), "node", node, scenario.topology.nodes, key=True)
    for word in ("mix", "nodes"):
        for name, weight in getattr(workload, word).items():
            if weight < 1:
                document.error((*at, word, name), "a weight is 1 at least")
    if workload.keys_of is not None and not workload.keys_of.hole:
        _keys(document, scenario, (*at, "keys"), workload.keys_of)
    for place, load_event in enumerate(workload.during):
        if not load_event.hole:
            _load_event(document, scenario, (*at, "during", place), load_event)


def _load_event(document: Document, scenario: Scenario, at: Path, load_event: LoadEvent) -> None:
    """Record the errors of a load event: a missing node, agent or fault, or a time after the load."""
    assert scenario.workload is not None
    length_ms = scenario.workload.for_ms
    if length_ms is not None and load_event.at_ms >= length_ms:
        document.error((*at, "at"), "the load is over by then")
    if load_event.cut is not None and load_event.cut not in scenario.topology.nodes:
        document.unknown((*at, "cut"), "node", load_event.cut, scenario.topology.nodes)
    if load_event.pause is not None:
        check_agent(document, scenario, (*at, "pause"), load_event.pause)
    known = [fault.id for fault in scenario.faults]
    if load_event.fault is not None and load_event.fault not in known:
        document.unknown((*at, "fault"), "fault", load_event.fault, known)


def _keys(document: Document, scenario: Scenario, at: Path, keys: Keys) -> None:
    if keys.table not in scenario.tables:
        document.unknown((*at, "table"), "table", keys.table, scenario.tables)
    if keys.count < 1:
        document.error((*at, "count"), "'count' is 1 at least")
    table = scenario.tables.get(keys.table)
    if table is not None and not table.hole and len(table.key_columns) != 1:
        document.error(
            (*at, "table"), "keys are picked of a table whose primary key is one column of numbers"
        )


def _values(document: Document, transactions: Mapping[str, Sequence[Step]], at: Path) -> None:
    """Record parameters of a load's transactions that are neither given nor drawn."""
    for name, steps in transactions.items():
        for place, step in enumerate(steps):
            known = {**dict.fromkeys(DRAWN), **step.values}
            for text in step.statements:
                for each in sqltext.parameters(text):
                    if each not in known:
                        path: Path = (*at, name, place)
                        document.unknown(path, "value", f":{each}", [f":{one}" for one in known])
