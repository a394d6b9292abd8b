"""Tests of completion: the scripts for shells, and the names that are completed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from twopc.sim.cli import exits
from twopc.sim.cli.completion import order_names, run_names

ROOT = Path(__file__).parents[2]
LOST_UPDATE = ROOT / "scenarios/immediate/lost_update.twopc.yaml"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(twopc, shell):
    done = twopc("completion", shell)
    assert done.returncode == 0
    assert done.stdout.startswith("# ")
    assert "_TWOPC_COMPLETE=complete_" + shell in done.stdout


def test_no_such_shell(twopc):
    assert twopc("completion", "tcsh").returncode == exits.USAGE


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_takes_it(twopc, tmp_path):
    (tmp_path / "script").write_text(twopc("completion", "bash").stdout, encoding="utf-8")
    done = subprocess.run(
        ["bash", "-c", "source ./script && complete -p twopc"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout == "complete -o default -F _twopc_completion twopc\n"


def test_words_are_completed(tmp_path):
    """Words are completed as the script requests it, through the environment."""
    done = subprocess.run(
        [sys.executable, "-m", "twopc.sim"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "_TWOPC_COMPLETE": "complete_bash",
            "COMP_WORDS": "twopc comp",
            "COMP_CWORD": "1",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split() == ["completion"]


class Context:
    """A context with parameters only, which is all that completion needs."""

    def __init__(self, **params):
        self.params = params


def test_names_of_orders(tmp_path):
    assert list(order_names(Context(paths=[LOST_UPDATE]), "alice f")) == ["alice first"]
    assert list(order_names(Context(file=LOST_UPDATE), "nobody")) == []
    (tmp_path / "half.twopc.yaml").write_text("orders: [{name: one}, {na", encoding="utf-8")
    assert list(order_names(Context(paths=[tmp_path / "half.twopc.yaml"]), "")) == []
    assert list(order_names(Context(paths=[tmp_path / "nowhere"]), "")) == []
    assert list(order_names(Context(), "")) == []


def test_names_of_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("one", "other"):
        (tmp_path / f".twopc/runs/{name}/latest").mkdir(parents=True)
        (tmp_path / f".twopc/runs/{name}/latest/history.jsonl").write_text("", encoding="utf-8")
    assert list(run_names("ot")) == ["other"]
