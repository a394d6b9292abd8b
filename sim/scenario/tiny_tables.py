"""Warns of serializable transactions over tables so small that PostgreSQL reads them as a whole.

A predicate lock on a whole table makes transactions fail with 40001 that touch different rows; with more
rows they would not, so that the scenario would teach what is not so.
"""

from __future__ import annotations

from twopc.lexer import statements
from twopc.sim.scenario.model import Scenario, Session
from twopc.sim.scenario.tables import ScenarioTable
from twopc.sim.scenario.text import Document

#: With so many rows the Publisher's procedures look for one of them by an index: with 1,000 they do not.
ROWS_MIN = 3000


def warn_of_tiny_tables(document: Document, scenario: Scenario) -> None:
    """Warn of a tiny table whose rows two sessions write by different keys, both serializable."""
    levels = [scenario.topology.isolation, *(order.isolation for order in scenario.orders)]
    if not any("serializable" in each.values() for each in levels):
        return
    for name, table in scenario.tables.items():
        if len(table.rows) >= ROWS_MIN or table.sql or len(table.key_columns) != 1:
            continue
        keys = [_keys(session, name, table) for session in scenario.sessions.values()]
        named = [each for each in keys if each]
        if any(one.isdisjoint(other) for one in named for other in named):
            document.warn(
                document.mark(("tables", name), key=True),
                f"table '{name}' has {_rows(len(table.rows))}, and PostgreSQL reads so small a table as "
                "a whole: serializable transactions on different rows of it are refused (40001), which "
                f"with {ROWS_MIN:,} rows or more (made under 'sql') they need not be",
            )


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _keys(session: Session, name: str, table: ScenarioTable) -> frozenset[str]:
    """The values that its statements on the table compare the key with."""
    (column,) = table.key_columns
    results: set[str] = set()
    for _, step in session.named_steps:
        for text in step.statements:
            tokens = [token for each in statements(text) for token in each]
            if name not in (token.name for token in tokens):
                continue
            for at, token in enumerate(tokens[:-2]):
                value = tokens[at + 2]
                if token.name == column and tokens[at + 1].text == "=":
                    results |= {value.text} if value.kind in ("number", "string") else set()
    return frozenset(results)
