"""The pytest plugin: fixtures for topologies, scenario files as tests, and additional output for failures.

Importing it starts nothing and imports nothing except pytest; no fixture is used unless a test requests it.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from twopc.sim.pytest_plugin import config as _config
from twopc.sim.pytest_plugin import fixtures as _fixtures
from twopc.sim.pytest_plugin import sections as _sections
from twopc.sim.pytest_plugin.fixtures import (
    twopc,
    twopc_async,
    twopc_bench,
    twopc_factory,
    twopc_merge,
    twopc_merge_async,
    twopc_merge_template,
    twopc_player,
    twopc_repetition,
    twopc_run,
    twopc_server,
    twopc_template,
)
from twopc.sim.pytest_plugin.marks import MARKERS, wrong

__all__ = [
    "twopc",
    "twopc_async",
    "twopc_bench",
    "twopc_factory",
    "twopc_merge",
    "twopc_merge_async",
    "twopc_merge_template",
    "twopc_player",
    "twopc_repetition",
    "twopc_run",
    "twopc_server",
    "twopc_template",
]

#: Part of the DETAIL of a Subscriber's error for a client without a coordinator.
_UNCOORDINATED = '"kind" : "uncoordinated"'
_ANY_CLIENT = (
    "In tests: @pytest.mark.twopc(any_client=True), or twopc_any_client = true in the ini file, lets an application "
    "write here as it is"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options and ini values, all of them with a prefix."""
    _config.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks."""
    for mark, meaning in MARKERS.items():
        config.addinivalue_line("markers", f"{mark}: {meaning}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat every test that uses twopc as often as ``--twopc-repeat`` requests."""
    if "twopc_repetition" in metafunc.fixturenames:
        times = _config.settings_of(metafunc.config).repeat
        if times > 1:
            ids = [f"run{n}" for n in range(1, times + 1)]
            metafunc.parametrize("twopc_repetition", range(times), ids=ids, indirect=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fail a test that leaves a prepared transaction, or of whose faults one never strikes; add notes to other
    failures.
    """
    try:
        result = yield
    except pytest.skip.Exception:
        _look_back(item)
        raise
    except BaseException as error:
        if _sections.topologies_of(item) and _UNCOORDINATED in str(error):
            error.add_note(_ANY_CLIENT)
        for note in _look_back(item):
            error.add_note(note)
        raise
    notes = _look_back(item)
    if notes:
        raise wrong("\n".join(notes))
    return result


def _look_back(item: pytest.Item) -> list[str]:
    """Return the defects of the state in which a test has left its topologies; add properties for the JUnit report."""
    topologies = _sections.topologies_of(item)
    if not topologies:
        return []
    _sections.add_properties(item)
    left = [text for each in topologies for text in each.left_prepared()]
    armed = [text for each in topologies for text in each.faults_not_reached()]
    return [
        *([_fixtures.left_behind(left)] if left else []),
        *([_fixtures.not_reached(armed)] if armed else []),
    ]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, Any]:
    """Add the history of its topologies to the report of a failed test."""
    report = yield
    if report.failed and _sections.topologies_of(item):
        item.stash[_fixtures.FAILED] = True
        if report.when == "call":
            _sections.add_sections(item, report)
            _sections.add_extras(item, report)
            for topology in _sections.topologies_of(item):
                _sections.write_report(item, topology.history)
    sections = getattr(item, "sections", None)  # only scenario items have them
    if report.failed and report.when == "call" and callable(sections):
        report.sections += sections()
        outcome = getattr(item, "outcome", None)
        if outcome is not None:
            _sections.write_report(item, outcome.records)
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """List the databases that were kept for inspection, and the tests after which databases had to be created anew."""
    for test, node, place in config.stash.get(_fixtures.KEPT, ()):
        terminalreporter.write_line(f"kept of {test}: {node} is at {place}")
    for test, reason in config.stash.get(_fixtures.LEFT_OPEN, ()):
        terminalreporter.write_line(f"new databases after {test}, which takes seconds: {reason}")


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Show rows that differ as a table."""
    from twopc.sim.pytest_plugin.row_assertions import compare

    return compare(op, left, right)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect scenario files as tests."""
    if not file_path.name.endswith(".twopc.yaml") or not parent.config.getini("twopc_collect"):
        return None
    from twopc.sim.pytest_plugin.collect import ScenarioFile

    return ScenarioFile.from_parent(parent, path=file_path)
