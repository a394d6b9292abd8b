"""Tests of the draw of slow tests: as many as a run has time for, and others for another seed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fix_sample import SEED
from tests.fix_slow import DURATIONS, Record, leave_out

ROOT = Path(__file__).parents[1]
PROJECT = """
import os

import pytest

@pytest.mark.xdist_group("slow")
@pytest.mark.parametrize("number", range(20))
def test_slow(number):
    with open("workers", "a", encoding="utf-8") as file:
        print(os.environ.get("PYTEST_XDIST_WORKER"), file=file)

@pytest.mark.always
def test_always(): pass

def test_quick(): pass
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with twenty cases of five seconds, one slow test that is always played, and a quick one."""
    (tmp_path / "test_it.py").write_text(PROJECT, encoding="utf-8")
    (tmp_path / "tests").mkdir()
    durations = {"test_it.py::test_slow": 5.0, "test_it.py::test_always": 600.0}
    (tmp_path / DURATIONS).write_text(json.dumps(durations), encoding="utf-8")
    return tmp_path


def passed(project: Path, *arguments: str) -> int:
    plugins = ["-p", "no:cacheprovider", "-p", "tests.fix_sample", "-p", "tests.fix_slow"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--rootdir", str(project), *plugins, *arguments],
        cwd=project, env={"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", SEED: "one"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return int(done.stdout.splitlines()[-1].partition(" passed")[0])


def test_as_many_as_there_is_time_for(project: Path) -> None:
    assert passed(project) == 22  # all fit into the default
    assert passed(project, "--slow-s", "80") == 4 + 2  # one group's share: one worker plays them
    assert passed(project, "--slow-s", "80", "--full") == 22
    assert passed(project, "--slow-s", "inf") == 22


def test_a_group_is_drawn_alike_and_played_by_one_worker(project: Path) -> None:
    """One worker plays the cases of a group, as each other one would start Spark or a server again."""
    assert passed(project, "--slow-s", "80") == 4 + 2
    (project / "workers").unlink()
    xdist = ("-p", "xdist", "-n", "2", "--dist", "loadgroup")
    assert passed(project, *xdist, "--slow-s", "80") == 4 + 2
    assert len({*(project / "workers").read_text(encoding="utf-8").splitlines()}) == 1


def test_another_seed_draws_others(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {f"test_{number}": 1.0 for number in range(100)}
    left_out = []
    for seed in ("one", "two", "one"):
        monkeypatch.setenv(SEED, seed)
        left_out.append(leave_out(seconds, 60, {}))
    assert left_out[0] == left_out[2] != left_out[1]
    assert {len(each) for each in left_out} == {40}


def test_what_was_played_is_recorded(project: Path) -> None:
    (project / DURATIONS).write_text(
        json.dumps(
            {"test_gone.py::test": 9.0, "test_it.py::test_slow": 5.0, "test_it.py::test_b": 2.0}
        ),
        encoding="utf-8",
    )
    record = Record(project)
    for nodeid, duration in (("test_slow[1]", 2.0), ("test_slow[2]", 1.0), ("test_quick", 0.4)):
        for phase in ("setup", "call"):
            record.pytest_runtest_logreport(
                pytest.TestReport(
                    f"test_it.py::{nodeid}", ("test_it.py", 1, nodeid), {}, "passed", None, phase,
                    duration=duration / 2,
                )
            )  # fmt: skip
    record.pytest_sessionfinish()
    assert json.loads((project / DURATIONS).read_text(encoding="utf-8")) == {
        "test_it.py::test_b": 2.0, "test_it.py::test_slow": 1.5,
    }  # fmt: skip
