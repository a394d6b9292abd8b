"""Rules of the project that no tool knows: what is not called, how long things may be, what is not left."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = ("twopc", "publisher", "subscriber", "sim", "benchmarks")
FOLDERS = (*PRODUCT, "tests", "scenarios", "docs")
SUFFIXES = {".py", ".sql", ".md", ".yaml", ".toml", ""}
GOLDEN = ROOT / "tests" / "golden"

TEXTS = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")
    if path.is_file() and path.suffix in SUFFIXES and "__pycache__" not in path.parts
) + sorted(
    path for path in ROOT.iterdir() if path.suffix in {".md", ".toml"} or path.name == "Makefile"
)
SOURCES = [path for path in TEXTS if path.suffix == ".py"]

#: Never called: the reason why, and who may all the same.
BANNED: dict[str, tuple[str, dict[str, str]]] = {
    "time.sleep": (
        "wait for the condition, not for the clock",
        {
            "benchmarks/distribution.py": "a load has a pace, and looking takes time from what is measured",
            "docs/clients/django_orm.py": "an application pauses before it tries again",
            "docs/clients/psycopg_plain.py": "likewise",
            "docs/clients/sqlalchemy_orm.py": "likewise",
        },
    ),
    "anyio.sleep": ("wait for the condition, not for the clock", {}),
    "asyncio.sleep": (
        "wait for the condition, not for the clock",
        {
            "tests/chaos/worker.py": "a client that was refused tries again in a moment",
            "twopc/drivers/runtime.py": "a server that is down tells nobody when it is up again",
            "twopc/drivers/keeper.py": "recovery and deadlock detection look at intervals",
            "twopc/drivers/resolver.py": "what nobody tells of is looked for at intervals",
            "twopc/drivers/resolver_watch.py": "a server that is down tells nobody when it is up again",
            "docs/clients/asyncpg_client.py": "an application pauses before it tries again",
            "tests/crash/test_late_prepare.py": "when each side of a race begins is what is drawn",
            "twopc/drivers/participant.py": "a busy gid: the server tells no end of it",
            "publisher/slot.py": "a slot that is in use: the server tells no end of it",
            "publisher/log_reader/sources.py": "likewise",
            "sim/faults/serving.py": "a fault that delays takes its time",
            "sim/topology/beside.py": "other processes tell nobody how far they are",
            "sim/topology/distribution.py": "how far an agent of another process is: it tells nobody",
        },
    ),
    "random.random": ("chance comes from one random.Random derived from the seed", {}),
    "random.randint": ("chance comes from one random.Random derived from the seed", {}),
    "random.choice": ("chance comes from one random.Random derived from the seed", {}),
    "random.shuffle": ("chance comes from one random.Random derived from the seed", {}),
    "uuid.uuid4": ("identifiers are built in twopc.names", {}),
    "os.system": ("subprocess.run takes a list, so nothing is quoted by hand", {}),
    "breakpoint": ("left over", {}),
}
#: pg_sleep in SQL of ours: where the server offers no event.
MAY_SLEEP = {"subscriber/sql/drain_link.sql"}

LINES_MAX = 450
TEST_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

LEFT_OVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b|^[<>]{7} ")
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:work|home|root|Users|mnt)/\w")


def name_of(path: Path) -> str:
    """How a file is called."""
    return path.relative_to(ROOT).as_posix()


@functools.cache
def text_of(path: Path) -> str:
    """The file's text, read once."""
    return path.read_text(encoding="utf-8")


@functools.cache
def tree_of(path: Path) -> ast.Module:
    """The file's syntax tree, made once."""
    return ast.parse(text_of(path))


def calls(tree: ast.AST) -> set[str]:
    """The dotted names of everything that is called; ``sleep(0)`` only gives way to another task."""
    return {
        ast.unparse(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and [ast.unparse(argument) for argument in node.args] != ["0"]
    }


def test_there_are_sources() -> None:
    """The rules below are about something."""
    assert {name_of(path).split("/")[0] for path in SOURCES} >= {*PRODUCT, "tests"}


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_banned_calls(path: Path) -> None:
    """Each ban with its reason, each exception with its own."""
    for name in calls(tree_of(path)) & set(BANNED):
        reason, exceptions = BANNED[name]
        assert name_of(path) in exceptions, f"{name}: {reason}"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_nothing_outlives_a_failure_beside_it(path: Path) -> None:
    """`asyncio.gather` leaves the others running on connections that are closed next: libpq crashes."""
    if name_of(path).split("/")[0] not in PRODUCT:
        return
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "asyncio.gather":
            given = {keyword.arg for keyword in node.keywords}
            assert "return_exceptions" in given, "use twopc.together"


def test_exceptions_are_needed() -> None:
    """An exception that nobody makes use of is taken back."""
    for name, (_, exceptions) in BANNED.items():
        for file in exceptions:
            assert name in calls(tree_of(ROOT / file)), (name, file)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_length(path: Path) -> None:
    """A file past the limit becomes a folder of the same name; a function is split."""
    text = text_of(path)
    limit = TEST_LINES_MAX if name_of(path).startswith("tests/") else LINES_MAX
    assert len(text.splitlines()) <= limit
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = int(node.end_lineno or 0) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_docstrings(path: Path) -> None:
    """Every module says what it is for, every public class and function what it means."""
    tree = tree_of(path)
    if not tree.body:
        return
    assert ast.get_docstring(tree), "the module has no docstring"
    if name_of(path).startswith(("tests/", "benchmarks/")):
        return
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            assert node.name.startswith("_") or ast.get_docstring(node), (
                f"{node.name} has no docstring"
            )


@pytest.mark.parametrize("path", [p for p in TEXTS if GOLDEN not in p.parents], ids=name_of)
def test_nothing_is_left_over(path: Path) -> None:
    """No markers of unfinished work, no path of somebody's machine."""
    for number, line in enumerate(text_of(path).splitlines(), 1):
        assert not LEFT_OVER.search(line), f"line {number}: {line.strip()}"
        assert not MACHINE_PATH.search(line), f"line {number}: {line.strip()}"


@pytest.mark.parametrize(
    "path", [p for p in TEXTS if p.suffix == ".sql" and GOLDEN not in p.parents], ids=name_of
)
def test_sql_does_not_sleep(path: Path) -> None:
    """Waiting is done on locks and results."""
    assert "pg_sleep" not in text_of(path) or name_of(path) in MAY_SLEEP


#: Connections whose search path is not ours.
OTHER_PATHS = {
    "twopc/drivers/sessions.py": 1,  # statements of an application run there
    "twopc/server/external.py": 1,  # asks nothing: is a server there?
    "twopc/doctor/examination.py": 1,  # likewise: does it want a password?
}


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_sessions_of_ours_have_our_search_path(path: Path) -> None:
    """Where nobody strange can put an operator or function in the place of PostgreSQL's."""
    if name_of(path).split("/")[0] not in ("twopc", "publisher", "subscriber"):
        return
    bare = 0
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Call) and re.fullmatch(
            r"(\w+\.)?(AsyncConnection|PGconn|psycopg)\.connect", ast.unparse(node.func)
        ):
            words = ast.unparse(node)
            bare += "path.options(" not in words and "pinned(" not in words
    bare -= text_of(path).count("path.SET")
    assert bare == OTHER_PATHS.get(name_of(path), 0), "connect with twopc.sql.path.options"
