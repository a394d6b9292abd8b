"""The shipped loads in virtual time, at a small size.

Their histories are always the same, whatever Python's hashes are.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlglot import exp

from twopc.sim.model.sql import parse
from twopc.sim.report.history import History
from twopc.sim.report.load import of
from twopc.sim.scenario.check import load
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.theatres import played

SMALL = sorted((Path(__file__).parent / "small").glob("*.yaml"))


async def _play(path: Path, history: History) -> list[str]:
    async with ModelTheatre() as theatre:
        verdict = await run(load(path), theatre, history)
    return [failure.message for order in verdict.orders for failure in order.failures]


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_nothing_is_lost(path):
    history = History()
    assert played("model", _play(path, history)) == []
    told = of(history.records)
    assert told["counts"]["committed"] > 10
    assert all(each["kept"] for each in told["thresholds"])


_PRINTED = """
import sys
from pathlib import Path
from twopc.sim.report.history import History
from twopc.sim.scenario.theatres import played
from tests.workload.test_model_bank import _play
assert played("model", _play(Path(sys.argv[1]), History(sys.stdout))) == []
"""


def test_the_same_bytes():
    """Two processes with different hash seeds write the same history."""
    histories = [
        subprocess.run(
            [sys.executable, "-c", _PRINTED, SMALL[1]],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert histories[0].count(b'"kind": "ok"') > 10
    assert histories[0] == histories[1]


def test_parameters_that_are_called_as_keywords_are():
    """Parameters may have names of keywords, such as ``:from``, which a load draws."""
    text = "update t set a = ':from', b = :to where id = :from and c::text = :select::text"
    tree = parse.tree(text)
    assert sorted(str(each.this) for each in tree.find_all(exp.Placeholder)) == [
        "from",
        "select",
        "to",
    ]
    assert "':from'" in parse.rendered(tree)
