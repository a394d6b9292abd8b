"""Slow tests, of which a run plays as many as its time allows: ``pytest --slow-s inf`` plays all of them.

Slow are the test functions whose cases took half a second or more each when they were recorded in ``durations.json``
(``--slow-s inf --record-slow``). The draw depends on the seed of the samples (``fix_sample.py``): other commits draw
other tests, over time every one. A run whose slow tests fit plays all of them, so that a run of a few files omits none.
"""

from __future__ import annotations

import json
import math
import os
import random
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.fix_sample import SEED

DURATIONS = Path("tests", "durations.json")
#: With four workers on two idle cores, tests that are not slow and these take at most ten minutes with any draw.
SLOW_S = 700.0
#: Share of this time for the tests of one group, which one worker plays while the others go on.
_GROUP_SHARE = 0.25
_SLOW_FROM_S = 0.5


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add options for how long slow tests may take, and to record their durations."""
    parser.addoption(
        "--slow-s", type=float, metavar="S", default=SLOW_S,
        help="slow tests are drawn that took so many seconds when recorded, all workers' together;"
        " inf: all are played (%(default)g)",
    )  # fmt: skip
    parser.addoption(
        "--record-slow", action="store_true", help="record which of the tests played are slow"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the recorder in the process that receives the reports of all workers."""
    if config.getoption("--record-slow") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Record(config.rootpath))
    config.addinivalue_line("markers", "always: played by every run, however long it takes")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect slow tests that are not drawn, after the samples were drawn."""
    limit_s = math.inf if config.getoption("--full") else config.getoption("--slow-s")
    durations = read_durations(config.rootpath)
    slow = {
        name: item
        for item in items
        if function_of(name := without_group(item.nodeid)) in durations
        and not item.get_closest_marker("always")
    }
    seconds = {name: durations[function_of(name)] for name in slow}
    groups = {
        name: mark.args[0]
        for name, item in slow.items()
        if (mark := item.get_closest_marker("xdist_group")) is not None
    }
    if left_out := {slow[name] for name in leave_out(seconds, limit_s, groups)}:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def read_durations(root: Path) -> dict[str, float]:
    """Return the seconds that a case of each slow function took."""
    durations: dict[str, float] = json.loads((root / DURATIONS).read_text(encoding="utf-8"))
    return durations


def without_group(nodeid: str) -> str:
    """Return a test's name without the group that pytest-xdist appends to it in its workers."""
    parameters_end = nodeid.rfind("]") + 1
    return nodeid[:parameters_end] + nodeid[parameters_end:].partition("@")[0]


def function_of(nodeid: str) -> str:
    """Return a test's name without its parameters."""
    return nodeid.partition("[")[0]


def leave_out(seconds: Mapping[str, float], limit_s: float, groups: Mapping[str, str]) -> set[str]:
    """Return the tests that are not drawn because those drawn before take `limit_s`, or those of the same group their
    share of it; none if all fit.
    """
    if sum(seconds.values()) <= limit_s:
        return set()
    left_out, total_s, group_s = set(), 0.0, defaultdict[str, float](float)
    for name in sorted(
        seconds, key=lambda name: random.Random(f"{os.environ[SEED]} {name}").random()
    ):
        group, took_s = groups.get(name, name), seconds[name]
        if total_s + took_s > limit_s or 0 < group_s[group] > limit_s * _GROUP_SHARE - took_s:
            left_out.add(name)
        else:
            total_s += took_s
            group_s[group] += took_s
    return left_out


class Record:
    """Adds up the durations of the cases of each function, including set-up and teardown."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._cases: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of a case."""
        name = without_group(report.nodeid)
        self._cases[function_of(name)][name] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Replace the durations of the functions played, and drop those of files that no longer exist."""
        kept = {
            name: seconds
            for name, seconds in read_durations(self._root).items()
            if name not in self._cases and (self._root / name.partition("::")[0]).exists()
        }
        for name, cases in self._cases.items():
            mean_s = sum(cases.values()) / len(cases)
            if mean_s >= _SLOW_FROM_S:
                kept[name] = round(mean_s, 2)
        text = json.dumps(dict(sorted(kept.items())), indent=0)
        (self._root / DURATIONS).write_text(text + "\n", encoding="utf-8")
