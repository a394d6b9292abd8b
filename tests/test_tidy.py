"""Rules of the project that no tool checks: banned calls, lengths, wording, leftovers.

A test is a rule, and lists every offender.
"""

from __future__ import annotations

import ast
import builtins
import re
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest

from tests.sources import nodes_of, text_of, tree_of

pytestmark = [pytest.mark.always, pytest.mark.xdist_group("sources")]  # one process reads them

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

#: Banned calls: the reason of the ban, and the files that may call them with their reasons.
BANNED: dict[str, tuple[str, dict[str, str]]] = {
    "time.sleep": (
        "wait for the condition, not for the clock",
        {
            "benchmarks/distribution.py": "a load has a pace",
            "benchmarks/native.py": "looking takes time from what is measured",
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
            "twopc/drivers/server_keeper.py": "recovery and deadlock detection look at intervals",
            "twopc/drivers/resolver_lock.py": "a server that is down tells nobody when it is up again",
            "docs/clients/asyncpg_client.py": "an application pauses before it tries again",
            "tests/crash/test_late_prepare.py": "when each side of a race begins is what is drawn",
            "twopc/drivers/participant.py": "a busy gid: the server tells no end of it",
            "publisher/slot.py": "a slot that is in use: the server tells no end of it",
            "publisher/log_reader/sources.py": "likewise",
            "sim/faults/call_server.py": "a fault that delays takes its time",
            "sim/topology/other_processes.py": "other processes tell nobody how far they are",
            "sim/topology/turns.py": "another process's turn: a lock that is waited for could not use another key",
            "sim/topology/agents.py": "how far an agent of another process is: it tells nobody",
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
#: Our SQL files that may call pg_sleep, because the server offers no event.
MAY_SLEEP = {
    "publisher/sql/proc_schema.sql",
    "subscriber/sql/drain_link.sql",
    "twopc/sql/drop_rights.sql",
    "twopc/sql/grant_replica.sql",
}

LINES_MAX = 450
TEST_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

LEFT_OVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b|^[<>]{7} ")
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:work|home|root|Users|mnt)/\w")


def name_of(path: Path) -> str:
    """Return the name of a file relative to the root."""
    return path.relative_to(ROOT).as_posix()


def calls(path: Path) -> set[str]:
    """Return the dotted names of calls that may be banned; ``sleep(0)`` only yields to other tasks."""
    last = {name.rpartition(".")[2] for name in BANNED}
    return {
        ast.unparse(node.func)
        for node in nodes_of(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in last
        and [ast.unparse(argument) for argument in node.args] != ["0"]
    }


def within(*folders: str) -> Iterator[tuple[str, Path]]:
    """Yield the sources of some folders with their names."""
    for path in SOURCES:
        if (name := name_of(path)).split("/")[0] in folders:
            yield name, path


def test_there_are_sources() -> None:
    """There are sources in each folder."""
    assert {name_of(path).split("/")[0] for path in SOURCES} >= {*PRODUCT, "tests"}


def test_banned_calls() -> None:
    """No banned call is made without an exception, and no exception is unused."""
    called = {name_of(path): calls(path) & set(BANNED) for path in SOURCES}
    offenders = [
        f"{file}: {name}: {BANNED[name][0]}"
        for file, names in called.items()
        for name in names
        if file not in BANNED[name][1]
    ]
    unused = [
        f"{file} does not call {name}"
        for name, (_, exceptions) in BANNED.items()
        for file in exceptions
        if name not in called[file]
    ]
    assert not offenders + unused, "\n".join(offenders + unused)


def test_no_assertion_is_about_elapsed_time() -> None:
    """No assertion compares elapsed time, which fails on a busy machine: benchmarks measure durations."""
    clocks = {"time.monotonic", "time.perf_counter"}
    offenders = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        for node in nodes_of(path)
        if isinstance(node, ast.Assert)
        for difference in ast.walk(node)
        if isinstance(difference, ast.BinOp)
        and isinstance(difference.left, ast.Call)
        and ast.unparse(difference.left.func) in clocks
    ]
    assert not offenders, "\n".join(offenders)


def test_files_are_utf_8_wherever_they_are_read() -> None:
    """Files are read and written with an encoding: the caller's locale would decide otherwise."""
    offenders = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        for node in nodes_of(path)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("read_text", "write_text")
        and not any(keyword.arg == "encoding" for keyword in node.keywords)
        and not (node.func.attr == "read_text" and node.args)  # that of a distribution's metadata
    ]
    assert not offenders, "\n".join(offenders)


def test_nothing_outlives_a_failure_beside_it() -> None:
    """`asyncio.gather` is not used without `return_exceptions`.

    It leaves other tasks running on connections that are closed next, and libpq crashes.
    """
    offenders = [
        f"{name}:{node.lineno}: use twopc.together"
        for name, path in within(*PRODUCT)
        for node in nodes_of(path)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "asyncio.gather"
        and "return_exceptions" not in {keyword.arg for keyword in node.keywords}
    ]
    assert not offenders, "\n".join(offenders)


def test_length() -> None:
    """A file beyond the limit becomes a folder of the same name; a function is split."""
    offenders = []
    for path in SOURCES:
        name, lines = name_of(path), len(text_of(path).splitlines())
        if lines > (TEST_LINES_MAX if name.startswith("tests/") else LINES_MAX):
            offenders.append(f"{name} has {lines} lines")
        for node in nodes_of(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = int(node.end_lineno or 0) - node.lineno + 1
                if length > FUNCTION_LINES_MAX:
                    offenders.append(f"{name}:{node.lineno}: {node.name} has {length} lines")
    assert not offenders, "\n".join(offenders)


def test_docstrings() -> None:
    """Every module, and every public class and function of the product, has a docstring."""
    offenders = []
    for path in SOURCES:
        name, tree = name_of(path), tree_of(path)
        if tree.body and not ast.get_docstring(tree):
            offenders.append(name)
        if not name.startswith(("tests/", "benchmarks/")):
            offenders += [
                f"{name}:{node.lineno}: {node.name}"
                for node in tree.body
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                and not node.name.startswith("_")
                and not ast.get_docstring(node)
            ]
    assert not offenders, "\n".join(offenders)


def test_a_docstring_follows_what_it_describes() -> None:
    """No two strings follow each other: a line inserted before a docstring would take it for its own."""
    offenders = [
        f"{name_of(path)}:{second.lineno}"
        for path in SOURCES
        for node in nodes_of(path)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        for first, second in pairwise(node.body)
        if is_text(first) and is_text(second)
    ]
    assert not offenders, "\n".join(offenders)


def is_text(node: ast.AST) -> bool:
    """Return whether a statement is nothing but a string."""
    return isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)


def test_nothing_is_left_over() -> None:
    """There are no markers of unfinished work, and no paths of one machine."""
    offenders = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for path in TEXTS
        if GOLDEN not in path.parents
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if LEFT_OVER.search(line) or MACHINE_PATH.search(line)
    ]
    assert not offenders, "\n".join(offenders)


#: Phrases that are not technical English, each with what to write instead.
REFUSED = {
    r"harmless (?:twice|after|and after)": "idempotent; no effect after …",
    r"in the midst of": "during",
    r"befalls?": "an event at …, a fault of …",
    r"whoever explores": "the search",
}


def test_wording() -> None:
    """Pages, docstrings, comments and messages contain none of the phrases above."""
    offenders = [
        f"{name_of(path)}:{number}: {phrase.group()}: {instead}"
        for path in TEXTS
        for number, line in enumerate(text_of(path).splitlines(), 1)
        for refused, instead in REFUSED.items()
        if (phrase := re.search(rf"\b{refused}\b", line, re.IGNORECASE)) and path != Path(__file__)
    ]
    assert not offenders, "\n".join(offenders)


def anchors(page: str) -> set[str]:
    """Return the anchors of a page: its headings, as GitHub spells them."""
    headings = re.findall(r"^#+ (.*)", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_in_pages_resolve() -> None:
    """Links in pages lead to existing files, folders and headings."""
    offenders = []
    for path in (path for path in TEXTS if path.suffix == ".md" and GOLDEN not in path.parents):
        prose = re.sub(r"```.*?```", "", text_of(path), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", prose):
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            if not link.startswith("https://") and (
                not target.exists()
                or (anchor and target.suffix == ".md" and anchor not in anchors(text_of(target)))
            ):
                offenders.append(f"{name_of(path)}: {link}")
    assert not offenders, "\n".join(offenders)


def test_links_stay_within() -> None:
    """No link leads out of the tree, where it would refer to other files on another machine."""
    done = subprocess.run(
        ["git", "ls-files", "--stage"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        pytest.skip("no checkout of git: nothing tells what belongs to the tree")
    links = [line.partition("\t")[2] for line in done.stdout.splitlines() if line[:6] == "120000"]
    offenders = [link for link in links if not (ROOT / link).resolve().is_relative_to(ROOT)]
    offenders += [link for link in links if (ROOT / link).readlink().is_absolute()]
    assert not offenders, "\n".join(offenders)


def test_sql_does_not_sleep() -> None:
    """Our SQL waits for locks and results, and does not sleep."""
    sleeping = {
        name_of(path)
        for path in TEXTS
        if path.suffix == ".sql" and GOLDEN not in path.parents and "pg_sleep" in text_of(path)
    }
    assert sleeping == MAY_SLEEP


#: Connections whose search path is not ours.
OTHER_PATHS = {
    "twopc/drivers/server_sessions.py": 1,  # executes statements of an application
    "twopc/server/external.py": 1,  # only checks whether a server answers
    "twopc/doctor/examination.py": 1,  # only checks whether a server requires a password
}


def test_sessions_of_ours_have_our_search_path() -> None:
    """Our connections have our search path, so that no foreign operator or function replaces PostgreSQL's."""
    bare: dict[str, int] = {}
    for name, path in within("twopc", "publisher", "subscriber"):
        count = -len(re.findall(r"path\.SET\b", text_of(path)))
        for node in nodes_of(path):
            if isinstance(node, ast.Call) and re.fullmatch(
                r"(\w+\.)?(AsyncConnection|PGconn|psycopg)\.connect", ast.unparse(node.func)
            ):
                words = ast.unparse(node)
                count += "path.options(" not in words and "pinned(" not in words
        if count:
            bare[name] = count
    assert bare == OTHER_PATHS, "connect with twopc.sql.path.options"


#: Class names that are no nouns: participles, pronouns and gerunds. Events of the protocol are past facts, and may have
#: such names.
NO_NOUNS = re.compile(
    r"(Told|Said|Asked|Wanted|Known|Seen|Unseen|Found|Done|Left|Again|Elsewhere|Once|When|Own|Beside|Able|Need|Needs"
    r"|Looking|Watching|Serving|Leaving|Scripting|Syncing|Holding|Stepping|Happening|Copying|Moving)$"
)
#: Exceptions that no function of the public API raises: who catches each.
INNER_EXCEPTIONS = {
    "AgentCrashedError": "the session of a merge agent ends with it, as with a lost connection",
    "BlockedError": "delivery.py delivers the batch on one connection instead",
    "BuildError": "model_check.py reports it at the place in the file",
    "DeadError": "sessions.py of the faults makes a lost session of it",
    "EndOfCopy": "ends a loop over COPY data within channel.py",
    "InfeasibleError": "the runner notes that the order is not possible",
    "KilledError": "stops a process of the model",
    "LostError": "the agent's engine tries again",
    "OrderFailedError": "pytest shows it as the failure of an item",
    "OtherStatementsError": "runs.py reports it as a divergence",
    "PassingError": "the agent's engine tries again",
    "RefusedError": "the agent's engine makes a DeliveryError of it, or skips",
    "RequestLostError": "the model's `errors` make a psycopg error of it",
    "UnfinishedError": "the agent rolls back and goes on",
    "SqlError": "the model's `errors` make a psycopg error of it",
    "StuckError": "the player ends the order",
    "SyncError": "a lane or a load notes it as the step's end",
    "UnsupportedError": "the model's stage makes a NotPlayableError of it",
    "AwayError": "observe.py notes that the node cannot be looked at",
    "NoEffectError": "who performs faults notes that one had nothing to act on",
    "NotEndedError": "a test's assertion",
}


def product_classes() -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield the top-level classes of the product's modules, each with its place."""
    for path in SOURCES:
        if path.relative_to(ROOT).parts[0] in PRODUCT[:-1]:
            for node in tree_of(path).body:
                if isinstance(node, ast.ClassDef):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def test_a_class_name_names_one_thing() -> None:
    """No two classes have the same name, and each name is a noun."""
    places: dict[str, list[str]] = {}
    for where, node in product_classes():
        places.setdefault(node.name, []).append(where)
    offenders = [f"{name}: {', '.join(found)}" for name, found in places.items() if len(found) > 1]
    offenders += [
        f"{found[0]}: {name} is no noun"
        for name, found in places.items()
        if NO_NOUNS.search(name)
        and not found[0].startswith(("twopc/protocol/", "sim/model/plants/"))
    ]
    assert not offenders, "\n".join(offenders)


def test_modules_are_named_after_things() -> None:
    """No module is named by a participle, a pronoun, or a word that fits any module."""
    refused = {"words", "able", "told", "said", "known", "again", "elsewhere", "utils"}
    nouns = {
        "bed",
        "drawing",
        "finding",
        "listing",
        "meaning",
        "planning",
        "polling",
        "recording",
        "shipping",
        "tracking",
        "wiring",
    }
    offenders = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        for last in [path.stem.rpartition("_")[2]]
        if path.relative_to(ROOT).parts[0] in PRODUCT
        and (last in refused or (last.endswith(("ing", "ed")) and last not in nouns))
    ]
    assert not offenders, "\n".join(offenders)


def test_the_glossary_names_classes() -> None:
    """Each class in the glossary exists, and its term is listed."""
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| ([^|`]+?) \| [A-Z*]", page, re.MULTILINE)
    terms = set(listed)
    assert len(listed) == len(terms), "a term has one meaning"
    known = {f"{module_of(where)}.{node.name}" for where, node in product_classes()}
    rows = re.findall(r"^\| ([^|]+?) \| `([\w.]+)` \|$", page, re.MULTILINE)
    assert rows
    offenders = [f"{term}: no class {name}" for term, name in rows if name not in known]
    offenders += [f"{term}: not among the terms" for term, _ in rows if term not in terms]
    assert not offenders, "\n".join(offenders)


def module_of(where: str) -> str:
    """Return the module of a file."""
    parts = where.partition(":")[0].removesuffix(".py").removesuffix("/__init__").split("/")
    return ".".join(parts if parts[0] == "twopc" else ["twopc", *parts])


def test_exceptions_stand_in_the_tree() -> None:
    """Exceptions of public functions are a `TwopcError`, which states whether the outcome is definite."""
    bases = {
        node.name: [ast.unparse(base).rpartition(".")[2] for base in node.bases]
        for _, node in product_classes()
    }

    def stands_on(name: str, roots: set[str]) -> bool:
        above = [
            base for base in bases.get(name, ()) if base != name
        ]  # a library's class of the same name
        return name in roots or any(stands_on(base, roots) for base in above)

    every = [*vars(builtins).values(), *vars(psycopg.errors).values()]
    foreign = {e.__name__ for e in every if isinstance(e, type) and issubclass(e, BaseException)}
    outside = {
        name
        for name in bases
        if stands_on(name, foreign)
        and not stands_on(name, {"TwopcError"})
        and not name.startswith("_")
    }
    assert outside == set(INNER_EXCEPTIONS)


#: Words that must not be names, since a name says what a thing is.
VAGUE = frozenset(
    {"found", "told", "said", "wanted", "again", "elsewhere", "able", "mine", "ours", "theirs"}
)
#: A key in the output of ``twopc indoubt --json``.
_KEPT_NAMES = {("twopc/drivers/in_doubt.py", "ours")}


def test_names_are_nouns() -> None:
    """No pronoun or participle is the name of a value, a parameter, a function or a field of the product."""
    offenders = []
    for path in SOURCES:
        where = str(path.relative_to(ROOT))
        if path.relative_to(ROOT).parts[0] not in PRODUCT[:-1]:
            continue
        for node in nodes_of(path):
            name = {
                ast.FunctionDef: "name", ast.AsyncFunctionDef: "name", ast.ClassDef: "name", ast.arg: "arg",
                ast.Name: "id", ast.Attribute: "attr",
            }.get(type(node), "")  # fmt: skip
            if not name or isinstance(getattr(node, "ctx", None), ast.Load):
                continue
            text = getattr(node, name).strip("_")
            if text in VAGUE and (where, text) not in _KEPT_NAMES:
                offenders.append(f"{where}:{getattr(node, 'lineno', 0)}: {text}")
    assert not offenders, "\n".join(offenders)
