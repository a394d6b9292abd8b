"""Rules for ``.sql`` files: a correct header, a pinned search path, an owner, and comments.

A test is a rule, and lists every offender.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = sorted(ROOT.glob("*/sql/*.sql"))
CREATES = re.compile(r"^\s*create (?:or replace )?(function|procedure) (\S+?)\(", re.M)
#: Functions without a search path of their own. Each runs with the rights of its caller, names every object with its
#: schema, and either is called for every row, or calls a user's code, which expects the caller's path.
UNPINNED = {
    "apply_call", "apply_net", "apply_proc_call", "apply_statement", "call_settings", "change_table", "msins", "msreplace", "msupd_bitmap", "net_updates", "set_calls",
    "set_updates",
}  # fmt: skip
HOLE = re.compile(r"(?<!\{)\{(\w+)\}(?!\})")


def name_of(path: Path) -> str:
    """Return the name of a file relative to the root."""
    return str(path.relative_to(ROOT))


def split(path: Path) -> tuple[str, str]:
    """Return the header and the body of a file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    length = next(place for place, line in enumerate(lines) if not line.startswith("--"))
    return "\n".join(lines[:length]), "\n".join(lines[length:])


def test_there_are_files() -> None:
    assert {"publisher", "subscriber", "twopc"} <= {path.parts[-3] for path in FILES}


def test_header() -> None:
    """A header describes the file, and names its callers, its tables and exactly its placeholders."""
    offenders = []
    for path in FILES:
        name, (header, body) = name_of(path), split(path)
        if not re.match(r"-- \S[^\n]*[.:]", header):
            offenders.append(f"{name}: the first line does not say what it is")
        offenders += [
            f"{name}: no {label!r} in the header"
            for label in ("called by", "tables", "holes")
            if not re.search(rf"^-- {label}: +\S", header, re.M)
        ]
        found = re.search(r"^-- holes: +(.*?)(?=^--\s*$|\Z)", header + "\n", re.M | re.S)
        named = re.findall(r"\w+", found[1].replace("--", "")) if found else []
        holes = sorted(set(HOLE.findall(body)))
        if sorted(named) != (holes or ["none"]):
            offenders.append(f"{name}: has the holes {holes}, and names {named}")
    assert not offenders, "\n".join(offenders)


def _untidy(stem: str, body: str) -> Iterator[str]:
    """Yield the faults of the functions that a file creates."""
    for found in CREATES.finditer(body):
        kind, name = found[1], re.escape(found[2])
        rest = body[found.end() :]
        pinned = re.search(r"\nset search_path = pg_catalog, pg_temp\b", rest)
        # names in a body of standard SQL are resolved once, when it is created
        bound = "language sql" in rest and "begin atomic" in rest
        if stem in UNPINNED:
            if pinned:
                yield f"{name} is no exception"
            if ("{runs_as}" in rest and "{path_stays}" in rest) != ("security definer" in rest):
                yield f"{name} leaves a path behind"
        elif not (pinned or bound):
            yield f"{name} sets no search_path"
        owned = rf"\nalter {kind} {name}\([^;]*\) owner to \{{owner\}};"
        if ("security definer" in rest or "{owner}" in body) and not re.search(owned, rest):
            yield f"{name} runs as whoever creates it"
        for rule in (
            rf"\nrevoke all on {kind} {name}\([^;]*\) from public;",
            rf"\ncomment on {kind} {name}\([^;]*\)\s+is ",
        ):
            if not re.search(rule, rest):
                yield f"{name}: nothing matches {rule!r}"


def test_functions_are_pinned_and_commented() -> None:
    """Functions have a pinned search path, an owner, no rights for PUBLIC, and a COMMENT."""
    offenders = [
        f"{name_of(path)}: {words}"
        for path in FILES
        for words in _untidy(path.stem, split(path)[1])
    ]
    assert not offenders, "\n".join(offenders)


def test_every_file_is_used() -> None:
    """Every file is rendered by some code."""
    sources = "\n".join(
        p.read_text(encoding="utf-8")
        for p in ROOT.glob("*/**/*.py")
        if "tests" not in p.relative_to(ROOT).parts
    )
    assert [name_of(path) for path in FILES if f'"{path.stem}"' not in sources] == []


def test_nothing_is_looked_up_where_a_user_may_create() -> None:
    """Statements that run with the path of a user's triggers name all of their own objects by schema."""
    opened = {
        path.stem: re.findall(r"\{opened\}(.*?)\{closed\}", split(path)[1], re.S) for path in FILES
    }
    counts = {stem: len(texts) for stem, texts in opened.items() if texts}
    assert counts == {"change_insert": 1, "change_update": 2, "change_delete": 2}
    for text in itertools.chain.from_iterable(opened.values()):
        statement = re.sub(r"set \{assignments\}|get diagnostics \w+ = row_count;", "", text)
        bare = re.sub(r"operator\(pg_catalog\.=\)", "", statement)
        assert not re.search(r"[=<>|~+]|\b(in|between|like|distinct|using \()\b", bare), statement
        calls = set(re.findall(r"([\w.]+)\(", bare)) - {"from", "as", "r", "t"}
        assert calls <= {"pg_catalog.unnest"}, statement


def test_literals_mean_the_same_in_every_session() -> None:
    """Literals with backslashes are written as E'', since others depend on `standard_conforming_strings`."""
    offenders = []
    for path in FILES:
        code = re.sub(r"(?m)(^|\s)-- .*$", "", split(path)[1])
        texts = re.findall(r"(?i)(?<!')\b(?:e)?'(?:[^']|'')*'|'(?:[^']|'')*'", code)
        offenders += [
            f"{name_of(path)}: {text}" for text in texts if "\\" in text and text[0] not in "eE"
        ]
    assert not offenders, "\n".join(offenders)
