"""Runs of pytest with the plugin on a user's project."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: A template with an account table, for every test.
BANK = """
    import pytest

    @pytest.fixture(scope="session")
    def twopc_template():
        return [
            "create table account (id int primary key, balance int not null)",
            "insert into account select g, 100 from generate_series(1, 3) as g",
        ]
"""
#: Warnings are errors, and no other configuration sets the scope of event loops.
INI = """
    [pytest]
    filterwarnings = error
    asyncio_default_fixture_loop_scope = function
"""


def arguments() -> list[str]:
    """Return the options that load the plugin if it is not installed."""
    installed = entry_points(group="pytest11", name="twopc")
    return [] if installed else ["-p", "twopc.sim.pytest_plugin"]


class Project:
    """A user's project in its own directory."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pytester = pytester
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        for name in ("TWOPC_PG_URL", "TWOPC_SEED", "TWOPC_REPEAT", "CI", "PYTEST_XDIST_WORKER"):
            monkeypatch.delenv(name, raising=False)
        pytester.makefile(".ini", pytest=INI)
        pytester.makeconftest(BANK)

    def test(self, text: str, name: str = "test_it") -> None:
        """Write the project's test module."""
        self.pytester.makepyfile(**{name: text})

    def run(self, *options: str) -> pytest.RunResult:
        """Run pytest in this process, which has loaded the dependencies."""
        return self.pytester.runpytest_inprocess(*arguments(), "-p", "no:cacheprovider", *options)

    def run_apart(self, *options: str) -> pytest.RunResult:
        """Run pytest in a separate process; the output of a run that hangs is shown."""
        return self.pytester.runpytest_subprocess(
            *arguments(), "-p", "no:cacheprovider", *options, timeout=300
        )
