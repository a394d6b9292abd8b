"""Tests of `twopc init`, which writes a first scenario and a first test."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.plugin.running import arguments
from twopc.sim.cli import exits

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.postgres


def test_what_it_writes_runs(twopc, tmp_path):
    done = twopc("init", "shop")
    assert done.returncode == 0
    assert "next:  cd shop && twopc run scenarios" in done.stdout
    assert (tmp_path / "shop/tests/test_lost_update.py").exists()
    table = tomllib.loads((tmp_path / "shop/pyproject.toml").read_text(encoding="utf-8"))
    assert table == {"tool": {"twopc": {}}}
    assert twopc("check", "--strict", "shop").returncode == 0
    assert twopc("run", "shop/scenarios").returncode == 0


def test_its_test_passes(twopc, tmp_path):
    twopc("init", "shop")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments(), "-q", "-n", "0", "tests", "scenarios"],
        cwd=tmp_path / "shop",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


def test_nothing_is_written_over(twopc, tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'", encoding="utf-8")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios/lost_update.twopc.yaml").write_text("mine", encoding="utf-8")
    done = twopc("init")
    assert "left   scenarios/lost_update.twopc.yaml (it is there already)" in done.stdout
    assert (tmp_path / "scenarios/lost_update.twopc.yaml").read_text(encoding="utf-8") == "mine"
    text = (tmp_path / "pyproject.toml").read_text(encoding="utf-8")
    assert text.startswith("[project]\nname = 'x'\n\n[tool.twopc]\n")
    assert tomllib.loads(text)["tool"] == {"twopc": {}}

    done = twopc("init")
    assert "left   pyproject.toml (it has [tool.twopc] already)" in done.stdout
    assert (tmp_path / "pyproject.toml").read_text(encoding="utf-8") == text


def test_where_it_cannot_write(twopc, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = twopc("init", "file")
    assert done.returncode == exits.ENVIRONMENT
    assert "cannot write there" in done.stderr
    assert "name another folder" in done.stderr
