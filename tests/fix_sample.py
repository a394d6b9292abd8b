"""Samples of grids and searches that take too long for every run: ``pytest --full`` plays all of them.

The draw depends on the commit, so that other commits play other cells and one commit always the same. ``SAMPLE_SEED``
overrides the seed, which is printed at the end of each run.
"""

from __future__ import annotations

import os
import random
import subprocess
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

SEED = "SAMPLE_SEED"

Thing = TypeVar("Thing")

#: ``sample(things, count, by=key)`` draws `count` things of each class, in their order.
Sample = Callable[..., list]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add one option for every sample."""
    parser.addoption(
        "--full", action="store_true", help="play grids and searches in full, and all slow tests"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Set the seed before workers are started, which inherit it."""
    if not os.environ.get(SEED):
        os.environ[SEED] = _commit()
    config.addinivalue_line(
        "markers",
        "sample(count, by=()): without --full only so many of the test's cases are played,"
        " of each combination of values of the parameters `by`",
    )
    config.addinivalue_line("markers", "full: played by --full only: takes minutes")


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or "0"


def drawn(
    things: Iterable[Thing],
    count: int,
    name: str,
    by: Callable[[Thing], Hashable] = lambda _: None,
) -> list[Thing]:
    """Return `count` things of each class, in their order: the same for the same seed and name."""
    every = list(things)
    classes: dict[Hashable, list[int]] = defaultdict(list)
    for place, thing in enumerate(every):
        classes[by(thing)].append(place)
    kept = set()
    for value, places in classes.items():
        chance = random.Random(f"{os.environ[SEED]} {name} {value}")
        kept.update(chance.sample(places, min(count, len(places))))
    return [every[place] for place in sorted(kept)]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that are not drawn. A test that is selected by its name is always played."""
    if config.getoption("--full"):
        return
    named = {argument for argument in config.args if "::" in argument}
    groups: dict[str, list[pytest.Item]] = defaultdict(list)
    left_out = set()
    for item in items:
        if item.nodeid in named:
            continue
        if item.get_closest_marker("sample"):
            groups[item.nodeid.partition("[")[0]].append(item)
        elif item.get_closest_marker("full"):
            left_out.add(item)
    for name, group in groups.items():
        sampled = group[0].get_closest_marker("sample")
        left_out.update(group)
        left_out.difference_update(
            drawn(group, sampled.args[0], name, _class(sampled.kwargs.get("by", ())))
        )
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]


def _class(names: Sequence[str]) -> Callable[[pytest.Item], Hashable]:
    return lambda item: tuple(str(item.callspec.params[name]) for name in names)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print how to repeat the draw."""
    if not config.getoption("--full"):
        terminalreporter.write_line(
            f"drawn with {SEED}={os.environ[SEED]}; make test-all plays every test, make campaign every case"
        )


@pytest.fixture
def sample(request: pytest.FixtureRequest) -> Sample:
    """Draw from the things that a test plays in a loop; draw all with ``--full``."""

    def draw(
        things: Iterable[Thing], count: int, by: Callable[[Thing], Hashable] = lambda _: None
    ) -> list[Thing]:
        if request.config.getoption("--full"):
            return list(things)
        return drawn(things, count, request.node.nodeid, by)

    return draw


@pytest.fixture
def is_full(request: pytest.FixtureRequest) -> bool:
    """Return whether everything is to be played."""
    return bool(request.config.getoption("--full"))
