"""Golden files: readable texts that tests compare, rewritten by ``--rewrite-golden``."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Callable
from difflib import unified_diff
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"

Golden = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add one option for every kind of golden file."""
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="write golden files anew instead of comparing with them; read the difference",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """``golden("publisher/account.sql", text)`` asserts that the file contains the text."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--rewrite-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no golden file {name}: run pytest with --rewrite-golden"
        assert text == path.read_text(encoding="utf-8")

    return compare


def difference(text: str, base: str) -> str:
    """Return a golden file's content for a text that is similar to a whole one.

    It has a digest and the lines that differ; of many that are equal except for numbers, the first and the last.
    """
    digest = hashlib.sha256(text.encode()).hexdigest()
    lines = unified_diff(base.splitlines(), text.splitlines(), n=0, lineterm="")
    shown = [f"-- of the whole text: sha256 {digest}"]
    for _, run in itertools.groupby(
        itertools.islice(lines, 2, None), lambda x: re.sub(r"\d+", "#", x)
    ):
        alike = [re.sub(r"^@@.*@@$", "@@", line) for line in run]
        shown += (
            alike if len(alike) < 4 else [alike[0], f"-- {len(alike) - 2} lines like it", alike[-1]]
        )
    return "\n".join(shown) + "\n"
