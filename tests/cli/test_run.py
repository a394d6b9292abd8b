"""Tests of `twopc run` with its options: what is played, what is printed, and the exit codes.

Outcomes are the same on servers and on the model (tests/agreement). Tests with `on_servers` are
about what a server does besides.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.files import ACCOUNT, BOTH, CHANCE, STUCK, WRONG
from twopc.sim.cli import exits

ROOT = Path(__file__).parents[2]
LOST_UPDATE = ROOT / "scenarios/immediate/lost_update.twopc.yaml"
ABA = ROOT / "scenarios/immediate/aba.twopc.yaml"


@pytest.fixture(autouse=True)
def on_model(monkeypatch):
    """Play on the model, unless a test says otherwise."""
    monkeypatch.setenv("TWOPC_ON", "model")


@pytest.fixture
def on_servers(on_model, monkeypatch):
    """Play on servers, as without any setting."""
    monkeypatch.delenv("TWOPC_ON")


ON_SERVERS = pytest.mark.usefixtures("on_servers")


@pytest.fixture
def file(tmp_path):
    """Return a function that writes a scenario file."""

    def write(text: str, name: str = "account") -> Path:
        path = tmp_path / f"{name}.twopc.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def lines(done) -> list[str]:
    """Return the printed lines, without the spaces around them."""
    return [line.strip() for line in done.stdout.splitlines()]


@ON_SERVERS
@pytest.mark.postgres
def test_generated_orders_are_one_line(twopc, file):
    done = twopc("run", file(ACCOUNT), "--no-timeline")
    assert done.returncode == exits.PASS, done.stdout
    told = lines(done)
    assert sum(line.startswith("✓") for line in told) == 2
    (every,) = (line for line in told if line.startswith("✓ every order"))
    assert "24 of 36 feasible, 4 behaviours (run: 4)" in every
    assert told[-1].startswith("2 orders passed in ")


def test_one_of_the_generated(twopc, file):
    done = twopc("run", file(ACCOUNT), "--order", "every order #2")
    assert done.returncode == exits.PASS
    assert "every order" in done.stdout
    assert "alice first" not in done.stdout


def test_all_or_a_sample(twopc, file):
    done = twopc("run", file(ACCOUNT), "-k", "every", "--order", "sample:3", "--seed", "7")
    assert done.returncode == exits.PASS
    assert "(sample 3 seed 7)" in done.stdout
    assert list(Path(".twopc/runs/account").glob("*-7"))


def test_a_matrix_and_its_twin(twopc, file):
    done = twopc("run", file(BOTH), "--no-timeline")
    assert done.returncode == exits.PASS, done.stdout
    told = json.loads(Path(".twopc/runs/account/latest/verdict.json").read_text(encoding="utf-8"))
    assert [group["name"] for group in told["groups"]] == [
        "alice first [read committed]",
        "alice first [serializable]",
        "twin of alice first: version_check off [read committed]",
    ]
    assert sum(line.startswith("✓") for line in lines(done)) == 3
    assert "twin of" not in twopc("run", file(BOTH), "--no-timeline", "--no-twins").stdout


def test_tags(twopc, file):
    assert twopc("run", file(ACCOUNT), "--tag", "teaching").returncode == exits.NOTHING
    assert twopc("run", file(ACCOUNT), ABA, "--tag", "teaching").returncode == exits.PASS


@ON_SERVERS
@pytest.mark.postgres
def test_a_failure_tells_all_that_a_reader_needs(twopc, file):
    wrong = file(WRONG)
    done = twopc("run", wrong, "--seed", "3", "--no-timeline")
    assert done.returncode == exits.SAFETY
    told = done.stdout
    where = WRONG.splitlines().index("      sessions: {alice: rolled back}") + 1
    assert f"{wrong}:{where}:25" in told
    assert f"{where} |       sessions: {{alice: rolled back}}" in told
    assert "^ alice: expected rolled back, got committed" in told
    assert "a_write: update account" in told
    assert f'again:  twopc run {wrong} --order "alice first" --seed 3' in told
    assert "files:  .twopc/runs/account/" in told


@pytest.mark.parametrize(
    ("text", "code"),
    [(STUCK, exits.LIVENESS), (WRONG, exits.SAFETY)],
    ids=["stuck", "wrong"],
)
def test_exit_codes(twopc, file, text, code):
    done = twopc("run", file(text), "--timeout", "1s")
    assert done.returncode == code
    told = json.loads(Path(".twopc/runs/account/latest/verdict.json").read_text(encoding="utf-8"))
    assert told["exit_code"] == code


def test_repeating(twopc, file):
    done = twopc("run", file(ACCOUNT), "--order", "alice first", "--repeat", "3", "--no-timeline")
    assert done.returncode == exits.PASS
    assert "3 times alike" in done.stdout
    done = twopc("run", file(WRONG), "--until-fail", "--no-timeline")
    assert done.returncode == exits.SAFETY
    assert "failed 1 of 1" in done.stdout or "alice first" in done.stdout


@ON_SERVERS
@pytest.mark.postgres
def test_what_comes_out_in_several_ways_is_inconclusive(twopc, file):
    done = twopc("run", file(CHANCE), "--repeat", "12", "--no-timeline")
    assert done.returncode == exits.UNKNOWN
    assert "2 behaviours in 12 runs" in done.stdout
    assert "1 order inconclusive in " in done.stdout
    told = json.loads(Path(".twopc/runs/chance/latest/verdict.json").read_text(encoding="utf-8"))
    assert (told["verdict"], told["kind"], told["exit_code"]) == ("unknown", "unstable", 3)


@pytest.mark.postgres
def test_several_at_once_are_told_in_the_files_order(twopc, file, monkeypatch):
    one = twopc("run", file(BOTH), "--no-timeline")
    monkeypatch.delenv("TWOPC_ON")
    two = twopc("run", file(BOTH), "--no-timeline", "-j", "3")
    assert two.returncode == exits.PASS, two.stdout + two.stderr

    def told(done):
        beats = "…"  # a sign of life, which is printed on a busy machine
        return [
            line.removesuffix(" ms").rstrip("0123456789 ")
            for line in lines(done)[:-1]
            if not line.startswith(beats)
        ]

    assert told(one) == told(two)


def test_documents(twopc, file, tmp_path):
    done = twopc("run", file(ACCOUNT), ABA, "--order", "alice first", "--junit", "all.xml")
    assert done.returncode == exits.PASS
    root = ElementTree.parse(tmp_path / "all.xml").getroot()
    assert [suite.get("name") for suite in root] == ["account"]
    twopc("run", file(ACCOUNT), ABA, "-k", "alice or (there and not twin)", "--junit", "all.xml")
    root = ElementTree.parse(tmp_path / "all.xml").getroot()
    assert [suite.get("name") for suite in root] == ["account", "aba"]
    assert (root.get("tests"), root.get("failures")) == ("2", "0")

    assert twopc("run", ABA, "--html", "page.html").returncode == exits.PASS
    assert "<html" in (tmp_path / "page.html").read_text(encoding="utf-8")
    done = twopc("run", file(ACCOUNT), ABA, "--html", "page.html")
    assert done.returncode == exits.USAGE
    assert "the page of one scenario" in done.stderr
    assert twopc("run", ABA, "--junit", "/nowhere/x").returncode == exits.ENVIRONMENT


@ON_SERVERS
@pytest.mark.postgres
def test_one_that_cannot_be_played_keeps_no_other_from_it(twopc, file, tmp_path):
    """A file that servers cannot play, or refuse, does not prevent others from being played."""
    folder = tmp_path / "several"
    folder.mkdir()
    faults = "faults: [{id: f, at: recovery.begin, do: skew clock sub1 +5m}]\n"
    (folder / "a.twopc.yaml").write_text(ACCOUNT + faults, encoding="utf-8")
    (folder / "b.twopc.yaml").write_text(
        ACCOUNT.replace("balance: int", "balance: integr"), encoding="utf-8"
    )
    (folder / "c.twopc.yaml").write_text(ACCOUNT, encoding="utf-8")
    options = ("--order", "alice first", "--no-timeline", "--junit", "all.xml")
    done = twopc("run", folder, *options)
    assert done.returncode == exits.USAGE
    assert "a.twopc.yaml:" in done.stderr
    assert "a server takes the time of its machine" in done.stderr
    assert 'type "integr" does not exist' in done.stderr
    assert "1 order passed in " in done.stdout
    root = ElementTree.parse(tmp_path / "all.xml").getroot()
    assert sum(len(suite) for suite in root) >= 1


def test_events_for_tools(twopc, file):
    done = twopc("run", file(BOTH), "--progress", "json")
    assert done.returncode == exits.PASS
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == ["order", "group"] * 3 + ["run"]
    assert events[0]["verdict"] == "pass"
    assert "✓ alice first" in done.stderr


@ON_SERVERS
@pytest.mark.postgres
def test_what_is_written_down(twopc, file, tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.twopc]\nout = "elsewhere"\nseed = 5\n', encoding="utf-8"
    )
    done = twopc("run", file(ACCOUNT), "--order", "alice first")
    assert done.returncode == exits.PASS
    (run,) = (tmp_path / "elsewhere/account").glob("*-5")
    environment = json.loads((run / "env.json").read_text(encoding="utf-8"))
    assert environment["seed"] == 5
    assert environment["versions"]["python"]
    assert environment["settings"]["out"] == "elsewhere"
    assert (run / "sequence.mmd").exists()
    assert (run / "state/pub.json").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--on", "nowhere"], "--on: it is postgres, model or both, not 'nowhere'"),
        (["--cell", "x"], "it goes with --crash-matrix"),
        (["--commit", "all"], "it goes with --crash-matrix"),
        (["--crash-matrix", "--commit", "first_agent"], "there is presumed_abort, presumed_commit"),
        (["--fault", "x=y"], "faults are performed by no stage so far"),
        (["--seed", "x"], "--seed: it is a number from 0, not 'x'"),
        (["-j", "0"], "--jobs: it is a number from 1, not '0'"),
        (["--repeat", "-1"], "--repeat: it is a number from 1"),
        (["--servers", "two"], "--servers: it is one or each, not 'two'"),
        (["--timeout", "soon"], "a duration is written as 500ms"),
        (["--progress", "often"], "often"),
        (["-k", "a and"], "write words with and, or, not"),
    ],
)
def test_mistakes(twopc, file, arguments, said):
    done = twopc("run", file(ACCOUNT), *arguments)
    assert done.returncode == exits.USAGE
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_setting_is_named_where_it_stands(twopc, file, tmp_path, monkeypatch):
    monkeypatch.setenv("TWOPC_JOBS", "many")
    done = twopc("run", file(ACCOUNT))
    assert done.returncode == exits.USAGE
    assert "TWOPC_JOBS: it is a number from 1, not 'many'" in done.stderr
    (tmp_path / "pyproject.toml").write_text("[tool.twopc]\njob = 2\n", encoding="utf-8")
    done = twopc("run", file(ACCOUNT), "-j", "1")
    assert f"job in {tmp_path / 'pyproject.toml'}: there is no such setting" in done.stderr


@ON_SERVERS
@pytest.mark.postgres
def test_standard_input(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "twopc.sim", "run", "-", "--order", "alice first"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        input=ACCOUNT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == exits.PASS, done.stderr
    assert done.stdout.startswith("-  1 Publisher, 2 Subscribers\n")
