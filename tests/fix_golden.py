"""Golden files: whole texts, compared as they are, and written anew by ``--rewrite-golden``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"

Golden = Callable[[str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    """One option for every kind of golden file."""
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="write golden files anew instead of comparing with them; read the difference",
    )


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """``golden("publisher/account.sql", text)`` asserts that the file holds the text."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--rewrite-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no golden file {name}: run pytest with --rewrite-golden"
        assert text == path.read_text(encoding="utf-8")

    return compare
