"""A run without a load imports nothing that only loads need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.in_process import twopc

ROOT = Path(__file__).parents[2]
_LOOK = """
import sys
import twopc.sim.cli.play, twopc.sim.scenario.run, twopc.sim.scenario.postgres_theatre
from twopc.sim.scenario.cases import groups
from twopc.sim.scenario.check import load
groups(load(sys.argv[1]))
print(*(name for name in sys.modules if name.split(".")[0] in ("hdrh", "matplotlib") or
        name.startswith(("twopc.sim.workload", "twopc.sim.report.load", "twopc.sim.report.html"))))
"""


def test_nothing_of_it_is_loaded():
    path = ROOT / "scenarios" / "immediate" / "lost_update.twopc.yaml"
    ran = subprocess.run(
        [sys.executable, "-c", _LOOK, path], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == ""


def test_a_load_without_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Matplotlib only the pictures are missing, and the message names what to install."""
    path = ROOT / "scenarios" / "stress" / "agent_outage.twopc.yaml"
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    ran = twopc("run", path, "--on", "model", "--out", tmp_path)
    assert "no pictures were drawn: pip install 'twopc[plots]'" in ran.stdout
    assert "Traceback" not in ran.stderr
    (written,) = tmp_path.rglob("verdict.json")
    assert not [*written.parent.glob("*.png")]
