"""Rules for ``.sql`` files: a header that tells the truth, pinned functions, comments for all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(ROOT.glob("*/sql/*.sql"))
CREATES = re.compile(r"^\s*create (?:or replace )?(function|procedure) (\S+?)\(", re.M)
#: Functions without a search path of their own. Each runs with the rights of its caller, names every object
#: with its schema, and is called for every row, or calls what a user wrote, who expects the caller's path.
UNPINNED = {
    "apply_call", "apply_net", "apply_proc_call", "apply_statement", "call_settings", "msins", "msreplace", "msupd_bitmap", "net_updates", "set_calls",
    "set_updates",
}  # fmt: skip
HOLE = re.compile(r"(?<!\{)\{(\w+)\}(?!\})")


def name_of(path: Path) -> str:
    """How a test is called."""
    return str(path.relative_to(ROOT))


def split(path: Path) -> tuple[str, str]:
    """Header and body."""
    lines = path.read_text(encoding="utf-8").splitlines()
    length = next(place for place, line in enumerate(lines) if not line.startswith("--"))
    return "\n".join(lines[:length]), "\n".join(lines[length:])


def test_there_are_files() -> None:
    """The rules below are about something."""
    assert {"publisher", "subscriber", "twopc"} <= {path.parts[-3] for path in FILES}


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_header(path: Path) -> None:
    """What it is, who calls it, which tables it touches, and which holes it has: exactly those."""
    header, body = split(path)
    assert re.match(r"-- \S[^\n]*[.:]", header), "the first line says what it is"
    for label in ("called by", "tables", "holes"):
        assert re.search(rf"^-- {label}: +\S", header, re.M), f"no {label!r} in the header"
    found = re.search(r"^-- holes: +(.*?)(?=^--\s*$|\Z)", header + "\n", re.M | re.S)
    assert found is not None
    named = re.findall(r"\w+", found[1].replace("--", ""))
    assert named == ["none"] or len(named) == len(set(named))
    assert set(named) - {"none"} == set(HOLE.findall(body))


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_functions_are_pinned_and_commented(path: Path) -> None:
    """A search path of our own, an owner, nothing for PUBLIC, and a COMMENT."""
    _, body = split(path)
    for found in CREATES.finditer(body):
        kind, name = found[1], re.escape(found[2])
        rest = body[found.end() :]
        pinned = re.search(r"\nset search_path = pg_catalog, pg_temp\b", rest)
        if path.stem in UNPINNED:
            assert not pinned and "security definer" not in rest, f"{name} is no exception"
        else:
            # the names in a body of standard SQL are looked up once, when it is created
            bound = "language sql" in rest and "begin atomic" in rest
            assert pinned or bound, f"{name} sets no search_path"
        owned = rf"\nalter {kind} {name}\([^;]*\) owner to \{{owner\}};"
        if "security definer" in rest or "{owner}" in body:
            assert re.search(owned, rest), f"{name} runs as whoever creates it"
        for rule in (
            rf"\nrevoke all on {kind} {name}\([^;]*\) from public;",
            rf"\ncomment on {kind} {name}\([^;]*\)\s+is ",
        ):
            assert re.search(rule, rest), f"{name}: nothing matches {rule!r}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_file_is_used(path: Path) -> None:
    """A file that nothing renders is left over."""
    package = path.parts[-3]
    sources = [
        p.read_text(encoding="utf-8") for p in ROOT.glob("*/**/*.py") if "tests" not in p.parts
    ]
    call = re.compile(rf'"{package}",\s*"{path.stem}"')
    named = f'"{path.stem}"'
    assert any(call.search(text) or named in text for text in sources), "no Python file names it"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nothing_is_looked_up_where_a_user_may_create(path: Path) -> None:
    """The statement for which triggers of a user's get their path names everything of its own by schema."""
    found = re.findall(r"\{opened\}(.*?)\{closed\}", split(path)[1], re.S)
    assert len(found) == {"insert_procedure": 1, "update_procedure": 2, "delete_procedure": 2}.get(
        path.stem, 0
    )
    for text in found:
        statement = re.sub(r"set \{assignments\}|get diagnostics \w+ = row_count;", "", text)
        bare = re.sub(r"operator\(pg_catalog\.=\)", "", statement)
        assert not re.search(r"[=<>|~+]|\b(in|between|like|distinct|using \()\b", bare), statement
        calls = set(re.findall(r"([\w.]+)\(", bare)) - {"from", "as", "r", "t"}
        assert calls <= {"pg_catalog.unnest"}, statement
