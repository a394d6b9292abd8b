"""Checks that tables named in SQL exist, and exist in time.

Part of `twopc.sim.scenario.meaning`; records problems in the `Document` and changes nothing else. The checks use
tokens: any object that a text of the file may create is assumed to exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from twopc import lexer
from twopc.lexer import SqlToken
from twopc.sim.scenario import sqltext
from twopc.sim.scenario.expectations import Expect
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.steps import Step
from twopc.sim.scenario.text import Document, Mark, Path, listed, suggestion

#: Names in expectations of the error of a missing table.
_UNDEFINED = frozenset({"42P01", "undefined_table", "UndefinedTable"})
_OF_SYSTEM = "pg_"
_INDEX = re.compile(r"\s*create\s+(?:unique\s+)?index\b", re.IGNORECASE)
_ALTERED = re.compile(
    r"\s*(?:alter\s+table\s+(?:if\s+exists\s+)?|create\s+(?:unique\s+)?index\s+(?:\w+\s+)?on\s+)(?:only\s+)?"
    r"(?P<name>\w+)(?!\w|\.)",
    re.IGNORECASE,
)


def check_relations(document: Document, scenario: Scenario) -> None:
    """Record tables that a statement names and no text creates, and references to tables that are created later."""
    if document.partial or any(table.hole or table.holes for table in scenario.tables.values()):
        return
    for name, table in scenario.tables.items():
        for column, text in table.columns.items():
            _references(document, scenario, name, ("tables", name, "columns", column), text)
        for place, text in enumerate(table.sql):
            _check_later(document, scenario, ("tables", name, "sql", place), text)
    if any(step.hole or step.holes for _, step in scenario.steps.values()) or _is_expected(
        scenario
    ):
        return
    known = {*_created_names(scenario), *(name.rpartition(".")[2] for name in scenario.tables)}
    for path, text in _statements(scenario):
        for token in sqltext.relations(text):
            if token.name not in known and not token.name.startswith(_OF_SYSTEM):
                hint = _folded(token, scenario) or suggestion(token.name, scenario.tables)
                if not hint and scenario.tables:
                    hint = f"; the file has {listed(scenario.tables)}"
                document.error(
                    mark_of(document, path, text, token), f"no table '{token.name}'{hint}"
                )


def _folded(token: SqlToken, scenario: Scenario) -> str:
    """Return a hint for a name without quotes that differs from a table's only in upper case."""
    return "".join(
        f": SQL keeps capitals only in double quotes; write '{token.name}' instead of '{name}' under 'tables'"
        for name in scenario.tables
        if token.kind == "word" and name.lower() == token.name
    )


def _references(document: Document, scenario: Scenario, name: str, at: Path, text: str) -> None:
    """Check that a column refers only to its own table and to earlier ones."""
    tokens = [token for token in lexer.tokens(text) if token.kind != "space"]
    order = [*scenario.tables]
    for before, token, after in zip(tokens, tokens[1:], [*tokens[2:], None], strict=False):
        if before.word != "references" or (after is not None and after.text == "."):
            continue
        if token.name not in scenario.tables:
            hint = suggestion(token.name, scenario.tables)
            document.error(mark_of(document, at, text, token), f"no table '{token.name}'{hint}")
        elif order.index(token.name) > order.index(name):
            document.error(
                mark_of(document, at, text, token),
                f"table '{name}' refers to '{token.name}', which is created after it: list '{token.name}' first, "
                f"or add the foreign key under 'sql', which runs once all tables are there",
            )


def _check_later(document: Document, scenario: Scenario, at: Path, text: str) -> None:
    """Check the table names in ALTER TABLE and CREATE INDEX, which run after all tables have been created."""
    if "create" in sqltext.verbs(text) and not _INDEX.match(text):
        return  # the statement may create the objects that it names
    match = _ALTERED.match(text)
    if match is None or match["name"].lower() in scenario.tables or len(lexer.statements(text)) > 1:
        return
    token = SqlToken(kind="word", text=match["name"], start=match.start("name"))
    hint = suggestion(token.name, scenario.tables)
    if hint:  # other names may be those of views or partitions
        mark = mark_of(document, at, text, token)
        document.error(mark, f"no table '{token.name}'{hint}")


def _is_expected(scenario: Scenario) -> bool:
    """Return whether the file expects the error of a missing table, or accepts any outcome of a step."""

    def in_it(expect: Expect) -> bool:
        ends = [step.final for step in expect.steps.values()]
        return expect.otherwise == "any" or any(
            end.error in _UNDEFINED or end.outcome == "any" for end in ends
        )

    return any(in_it(expect) for _, expect in scenario.expectations())


def _created_names(scenario: Scenario) -> Iterator[str]:
    """Yield every name in texts that do more than read and change rows: they may create an object of that name."""
    texts: list[str] = [*scenario.setup]
    for table in scenario.tables.values():
        texts += [*table.sql, *table.procedures]
    for procedure in scenario.procedures.values():
        texts += [procedure.body, *procedure.at_subscribers]
    for subscriber in scenario.subscribers.values():
        texts += subscriber.sql
    for session in scenario.sessions.values():
        texts += session.setup
        texts += [step.script for _, step in session.named_steps if step.script is not None]
    texts += [text for _, text in _statements(scenario) if not sqltext.is_plain(text)]
    for text in texts:
        yield from (token.name for token in lexer.code(text) if token.name)


def _statements(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Yield every statement of steps and invariants, with its place."""
    for at, _, _, step in scenario.placed_steps():
        yield from step.placed(at) if step.call is None else ()
    for path, query in scenario.queries():
        if not query.hole:
            yield path, query.text
    groups: list[tuple[Path, Mapping[str, Sequence[Step]]]] = [
        (("transactions",), scenario.transactions)
    ]
    if scenario.workload is not None and not scenario.workload.hole:
        groups.append((("workload", "transactions"), scenario.workload.transactions))
    for where, transactions in groups:
        for name, steps in transactions.items():
            for place, step in enumerate(steps):
                yield from step.placed((*where, name, place)) if step.call is None else ()


def mark_of(document: Document, at: Path, text: str, token: SqlToken) -> Mark:
    """Return the place in the file of a token of the SQL at `at`; that of the SQL if it cannot be determined."""
    span = document.span(at)
    if span is None:
        return document.mark(at)
    word = re.compile(rf"(?<!\w){re.escape(token.text)}(?!\w)")
    before = len(word.findall(text, 0, token.start))
    results = list(word.finditer(document.text, *span))
    if before >= len(results):
        return document.mark(at)
    return _mark(document.text, results[before].start())


def _mark(text: str, index: int) -> Mark:
    line = text.count("\n", 0, index)
    return Mark(line + 1, index - (text.rfind("\n", 0, index) + 1) + 1)
