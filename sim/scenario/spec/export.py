"""Conversion of a scenario to an isolationtester spec, if the scenario has only sessions at the Publisher.

Parts of a scenario that a spec cannot express are refused by name, with their place. Expectations are omitted:
isolationtester compares its whole output with a file.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twopc.errors import ScenarioError
from twopc.sim.scenario.order_generation import Generate
from twopc.sim.scenario.ordering.enumerate import Space
from twopc.sim.scenario.spec.lexer import KEYWORDS
from twopc.sim.scenario.text import Path

if TYPE_CHECKING:
    from twopc.sim.scenario.check import LoadedScenario
    from twopc.sim.scenario.model import Order, OrderItem, Session, Step

#: Maximum number of permutations; a spec lists each of them.
PERMUTATIONS_MAX = 1000
_PARAMETER = re.compile(r"(?<![:\w]):[A-Za-z_]\w*")


def spec(loaded: LoadedScenario) -> str:
    """Return the text of a spec, ending in a line break.

    Raises:
        ScenarioError: the scenario has parts that a spec cannot express; with file and line.
    """
    return _Exporter(loaded).text()


class _Exporter:
    def __init__(self, loaded: LoadedScenario) -> None:
        self._document = loaded.document
        self._scenario = loaded.scenario
        self._rollbacks: dict[str, str] = {}
        """Names of the steps added for ``{rollback: session}``, by session."""

    def text(self) -> str:
        scenario = self._scenario
        for name, session in scenario.sessions.items():
            if session.node != scenario.topology.publisher:
                self._refuse(
                    ("sessions", name, "node"),
                    f"session '{name}' is at a Subscriber; a spec knows one database, the Publisher's",
                )
        permutations = list(self._permutations())
        lines = [f"# {line}" for line in _filled(scenario.about or scenario.name)]
        lines += ["", *self._setup(), ""]
        for name, session in scenario.sessions.items():
            lines += [*self._session(name, session), ""]
        return "\n".join([*lines, *permutations]).rstrip() + "\n"

    def _refuse(self, path: Path, message: str) -> None:
        mark = self._document.mark(path)
        excerpt = "\n".join(self._document.excerpt(mark))
        raise ScenarioError(f"{self._document.where(mark)}: error: {message}\n{excerpt}")

    # -- tables ------------------------------------------------------------------------------------

    def _setup(self) -> Iterator[str]:
        made: list[tuple[Path, str]] = []
        for name, table in self._scenario.tables.items():
            columns = [f'"{column}" {text}' for column, text in table.columns.items()]
            if table.key:
                columns.append("primary key (" + ", ".join(f'"{each}"' for each in table.key) + ")")
            made.append((("tables", name), f'create table "{name}" ({", ".join(columns)});'))
        for name, table in self._scenario.tables.items():
            for place, text in enumerate(table.sql):
                made.append((("tables", name, "sql", place), f"{text.rstrip().rstrip(';')};"))
            for place, row in enumerate(table.rows):
                made.append((("tables", name, "rows", place), _insert(name, row)))
        for placed in _placed(("setup",), self._scenario.setup):
            yield from self._block("setup", [placed])
        if made:
            yield from self._block("setup", made)
        ending = _placed(("teardown",), self._scenario.teardown)
        ending += [
            (("tables", name), f'drop table "{name}" cascade;') for name in self._scenario.tables
        ]
        if ending:
            yield from self._block("teardown", ending)

    def _block(self, begin: str, placed: Sequence[tuple[Path, str]]) -> Iterator[str]:
        """Yield the lines of a block of SQL; a single short statement takes one line.

        Args:
            placed: the statements, each with its place in the scenario.
        """
        for path, text in placed:
            if "}" in text:
                self._refuse(path, "a closing brace ends a spec's SQL, wherever it stands")
        statements = [text for _, text in placed]
        if len(statements) == 1 and "\n" not in statements[0]:
            yield f"{begin} {{ {statements[0]} }}"
            return
        yield f"{begin}\n{{"
        for each in statements:
            yield from (f"    {line}".rstrip() for line in each.split("\n"))
        yield "}"

    # -- sessions ----------------------------------------------------------------------------------

    def _session(self, name: str, session: Session) -> Iterator[str]:
        yield f"session {_name(name)}"
        for placed in _placed(("sessions", name, "setup"), session.setup):
            yield from self._block("setup", [placed])
        for place, (step_name, step) in enumerate(session.named_steps):
            path = ("sessions", name, "steps", place, step_name)
            sql = self._statements(name, step_name, step, path)
            if sql:
                yield from self._block(f"step {_name(step_name)}", [(path, text) for text in sql])
        if name in self._rollbacks:
            yield f"step {_name(self._rollbacks[name])} {{ rollback; }}"
        for placed in _placed(("sessions", name, "teardown"), session.teardown):
            yield from self._block("teardown", [placed])

    def _statements(self, session: str, name: str, step: Step, path: Path) -> list[str]:
        if step.action == "begin":
            return [f"begin isolation level {self._level(session)};"]
        if step.action in ("commit", "rollback"):
            return [f"{step.action};"]
        if step.explain is not None:
            return []
        if step.script is not None:
            return [step.script]
        statements = [f"{text.rstrip().rstrip(';')};" for text in step.statements]
        if step.action is not None or not statements:
            message = step.action or ("pause" if step.pause is not None else "resume")
            self._refuse(path, f"step '{name}': '{message}' has no place in a spec")
        if any(_PARAMETER.search(text) for text in statements):
            self._refuse(path, f"step '{name}' uses a parameter, which a spec does not have")
        return statements

    def _level(self, session: str) -> str:
        node = self._scenario.sessions[session].node
        levels = sorted({self._scenario.level(order, node) for order in self._scenario.orders})
        if len(levels) > 1:
            self._refuse(("orders",), f"its orders are of several levels: {', '.join(levels)}")
        return levels.pop() if levels else "read committed"

    # -- permutations ------------------------------------------------------------------------------

    def _permutations(self) -> Iterator[str]:
        for place, order in enumerate(self._scenario.orders):
            path = ("orders", place)
            if order.generate is not None:
                yield from self._generated(order, path)
                continue
            if order.about:
                yield from (f"# {line}" for line in _filled(order.about))
            items = [
                self._item(item, (*path, "steps", number))
                for number, item in enumerate(order.steps)
            ]
            yield "permutation " + " ".join(name for name in items if name)

    def _item(self, item: OrderItem, path: Path) -> str:
        if item.step is not None:
            step = self._scenario.steps[item.step][1]
            return "" if step.explain is not None else _name(item.step)
        if item.rollback is not None:
            made = self._rollbacks.setdefault(item.rollback, f"{item.rollback}_rolls_back")
            return _name(made)
        if item.wait is not None and item.wait.endswith(" blocked"):
            return ""  # the expected output of a spec shows the wait
        text = next((key for key, value in item if value), "it")
        self._refuse(path, f"'{text}' has no place in a permutation")
        return ""

    def _generated(self, order: Order, path: Path) -> Iterator[str]:
        generate = order.generate
        assert generate is not None, "only generated orders come here"
        chosen = generate.sessions or tuple(self._scenario.sessions)
        sessions = [
            [name for name, step in self._scenario.sessions[each].named_steps if not step.explain]
            for each in chosen
        ]
        before = generate.pairs
        if _of_all(generate) and len(self._scenario.orders) == 1:
            return  # without permutations, isolationtester runs all of them
        space = Space(sessions, before, generate.together)
        if space.count > PERMUTATIONS_MAX:
            self._refuse(path, f"{space.count:,} orders are too many to list in a spec")
        yield f"# {order.name}"
        for steps in space.every():
            yield "permutation " + " ".join(_name(step) for step in steps)


def _of_all(generate: Generate) -> bool:
    """Return whether an order leaves out other orders only by its limit or by reducing equivalent ones."""
    return generate == Generate(limit=generate.limit, reduce=generate.reduce)


def _placed(path: Path, statements: Sequence[str]) -> list[tuple[Path, str]]:
    """Return the statements of the list at `path`, each with its own place."""
    return [((*path, place), text) for place, text in enumerate(statements)]


def _name(name: str) -> str:
    """Return a name as written in a spec, in quotes if necessary."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_$]*", name) and name not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def _insert(table: str, row: Mapping[str, Any]) -> str:
    columns = ", ".join(f'"{column}"' for column in row)
    values = ", ".join(_literal(value) for value in row.values())
    return f'insert into "{table}" ({columns}) values ({values});'  # noqa: S608 -- text for a file


def _literal(value: Any) -> str:
    return "null" if value is None else "'" + str(value).replace("'", "''") + "'"


def _filled(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), 98)
