"""Checks of how changes are propagated to Subscribers: publications, filters, subscriptions and agents.

Part of `twopc.sim.scenario.meaning`; records problems in the `Document` and changes nothing else.
"""

from __future__ import annotations

import re

from twopc import lexer
from twopc.sim.scenario import sqltext
from twopc.sim.scenario.expectations import EVERYWHERE
from twopc.sim.scenario.model import OrderItem, Scenario
from twopc.sim.scenario.tables import ScenarioTable, Subscriber
from twopc.sim.scenario.text import Document, Path, listed, suggestion

#: Errors of SQL Server after which an agent may skip a transaction; SQLSTATEs are accepted too.
NUMBERS = ("20598", "2601", "2627")
STREAMS_MAX = 64
BATCH_MAX = 10_000


def check_reach(document: Document, scenario: Scenario) -> None:
    """Record the errors of `tables` and `subscribers`."""
    for name, table in scenario.tables.items():
        _published(document, ("tables", name), name, table)
        if table.filter is not None:
            _condition(document, ("tables", name, "filter"), table.filter)
    for name, subscriber in scenario.subscribers.items():
        at: Path = ("subscribers", name)
        if name not in scenario.topology.subscribers:
            document.unknown(at, "Subscriber", name, scenario.topology.subscribers, key=True)
        if not subscriber.hole:
            _subscriber(document, at, subscriber, scenario)


def _published(document: Document, at: Path, name: str, table: ScenarioTable) -> None:
    for place, column in enumerate(table.published):
        if column not in table.columns:
            document.unknown((*at, "published", place), "column", column, table.columns)
    known = table.published or table.columns
    for place, column in enumerate(table.propagate.large or ()):
        if column not in known:
            near = suggestion(column, known)
            document.error(
                (*at, "propagate", "large", place), f"no column '{column}' is published{near}"
            )
    missing = [column for column in table.key_columns if column not in table.published]
    if table.published and missing:
        document.error(
            (*at, "published"),
            f"table '{name}': its key must be published too: {listed(missing)}",
            key=True,
        )


def _condition(document: Document, at: Path, text: str) -> None:
    if len(list(lexer.statements(text))) != 1 or sqltext.parameters(text):
        document.error(at, "a filter is one condition over the table's columns")


def _subscriber(document: Document, at: Path, subscriber: Subscriber, scenario: Scenario) -> None:
    if not scenario.distributes and subscriber.model_fields_set - {"sql"}:
        document.error(at, "nothing is distributed here: 'distribution' is none", key=True)
    if subscriber.joins == "later":
        _joins_later(document, (*at, "joins"), at[1], subscriber, scenario)
    if not 1 <= subscriber.streams <= STREAMS_MAX:
        document.error((*at, "streams"), f"an agent has 1 to {STREAMS_MAX} streams")
    if not 1 <= subscriber.batch <= BATCH_MAX:
        document.error((*at, "batch"), f"a batch has 1 to {BATCH_MAX} transactions")
    for place, error in enumerate(subscriber.skip_errors):
        if error not in NUMBERS and not re.fullmatch(r"[0-9A-Z]{5}", error):
            document.error(
                (*at, "skip_errors", place),
                f"'{error}' is neither one of {listed(NUMBERS)} nor a SQLSTATE",
            )
    for place, each in enumerate(subscriber.sql):
        if not lexer.statements(each):
            document.error((*at, "sql", place), "there is no SQL in it")
    for table, condition in subscriber.filter.items():
        if table not in scenario.tables:
            document.unknown((*at, "filter", table), "table", table, scenario.tables, key=True)
        _condition(document, (*at, "filter", table), condition)


def _joins_later(
    document: Document, at: Path, name: str | int, subscriber: Subscriber, scenario: Scenario
) -> None:
    """Record settings that a Subscriber that subscribes during the order cannot have."""
    others = [
        each for each in scenario.topology.subscribers if scenario.subscriber(each).joins != "later"
    ]
    why = ""
    if subscriber.sync != "automatic":
        why = f"'sync: {subscriber.sync}' is for rows that are there already"
    elif scenario.lets_any_client(str(name)):
        why = "any client may work there only from the beginning"
    elif scenario.procedures:
        why = "where routines are published all Subscribers subscribe before the first step"
    elif scenario.workload is not None:
        why = "a load has no step by which it could"
    elif not others:
        why = (
            "at least one Subscriber subscribes before the first step: the log is read from then on"
        )
    if why:
        document.error(at, f"'{name}' cannot join later: {why}")


def check_agent(document: Document, scenario: Scenario, at: Path, subscriber: str) -> None:
    """Record an agent that does not exist."""
    if subscriber not in scenario.topology.subscribers:
        document.unknown(at, "Subscriber", subscriber, scenario.topology.subscribers)
    refuse_without(document, scenario, at)


def check_sync(document: Document, scenario: Scenario, at: Path, item: OrderItem) -> None:
    """Record the errors of an order's `sync`."""
    known = (*scenario.topology.subscribers, EVERYWHERE)
    for place, name in enumerate(item.sync or ()):
        if name not in known:
            document.unknown((*at, "sync", place), "Subscriber", name, known)
    if not item.sync:
        document.error((*at, "sync"), "say which Subscriber: {sync: sub1}")
    refuse_without(document, scenario, (*at, "sync"))


def refuse_without(document: Document, scenario: Scenario, at: Path) -> None:
    """Record an error for a part at `at` that requires distribution, if the scenario has none."""
    if not scenario.distributes:
        document.error(at, "nothing can be delivered: 'distribution' is none", key=True)
