"""``@pytest.mark.twopc_scenario``: a test that plays a scenario file and then looks closer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from twopc.errors import TwopcError
from twopc.sim.pytest_plugin.collect import selection, shown
from twopc.sim.pytest_plugin.marks import wrong
from twopc.sim.scenario.check import load

if TYPE_CHECKING:
    from twopc.sim.pytest_plugin.playing import FileOutcome, FilePlayer


def play(request: pytest.FixtureRequest, player: FilePlayer) -> FileOutcome:
    """What came of the file of the test's mark.

    Raises:
        pytest.fail.Exception: it did not go as the file expects, or the file is wrong.
    """
    mark = request.node.get_closest_marker("twopc_scenario")
    if mark is None:
        raise wrong("twopc_run needs @pytest.mark.twopc_scenario('file.twopc.yaml')")
    file, orders = _arguments(*mark.args, **mark.kwargs)
    path = request.path.parent / file
    try:
        loaded = load(shown(path if path.exists() else Path(file)))
        outcome = player.play(loaded, selection(request.config, orders))
    except TwopcError as error:
        raise wrong(str(error)) from None
    if outcome.is_wrong:
        raise wrong(outcome.text())
    if outcome.skipped:
        pytest.skip(outcome.skipped)
    return outcome


def _arguments(file: str, orders: str = "") -> tuple[str, str]:
    """The mark's."""
    return file, orders
