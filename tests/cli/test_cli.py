"""Tests of the command line as a process: its output, and its exit codes."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.cli.processes import running
from twopc.errors import (
    ConflictError,
    InDoubtError,
    ScenarioError,
    ServerError,
)
from twopc.sim.cli import exits
from twopc.sim.cli.files import scenario_files
from twopc.sim.model.loop import HungError
from twopc.sim.report.history import read
from twopc.sim.scenario.selection import selector

ROOT = Path(__file__).parents[2]
LOST_UPDATE = ROOT / "scenarios/immediate/lost_update.twopc.yaml"


def test_as_a_process(tmp_path):
    bad = ROOT / "tests/scenario/bad/unknown_key.twopc.yaml"
    done = subprocess.run(
        [sys.executable, "-m", "twopc.sim", "check", str(bad)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == exits.USAGE
    assert "did you mean 'rows'?" in done.stderr


@pytest.mark.parametrize(
    ("does", "unneeded"),
    [
        (f"sys.argv = ['twopc', 'check', {str(LOST_UPDATE)!r}]; main()", {"psycopg", "asyncio"}),
        (
            "import twopc.sim.cli.play, twopc.sim.scenario.postgres_theatre; sys.exit()",
            {"anyio"},
        ),
    ],
    ids=["check", "run"],
)
def test_a_command_loads_what_it_needs(does, unneeded):
    """A command loads neither other commands, nor merge replication, the model or logging."""
    unneeded = unneeded | {"structlog", "pygments", "simpy", "sqlglot", "twopc.sim.cli.merge"}
    unneeded |= {"twopc.sim.cli.sweep", "twopc.sim.merge.topology"}
    script = (
        "import sys, atexit; from twopc.sim.cli import main; "
        f"atexit.register(lambda: print(sorted({unneeded!r} & set(sys.modules)))); {does}"
    )
    shown = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert shown.stdout.splitlines()[-1] == "[]"


def test_help_is_short(twopc):
    commands = re.findall(r"^  ([a-z]+)  +[A-Z]", twopc("--help").stdout, re.MULTILINE)
    assert {"run", "check", "init", "completion"} <= set(commands)
    for command in ([], *([each] for each in commands)):
        done = twopc(*command, "--help")
        assert done.returncode == 0
        assert len(done.stdout.splitlines()) < 75
        assert done.stderr == ""
    assert "Exit codes: 0 passed; 1" in twopc("--help").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["--nonsense"],
        ["nonsense"],
        ["run"],
        ["run", "--servers", "three", LOST_UPDATE],
        ["run", "--dsn", "pub", LOST_UPDATE],
        ["run", "--timeout", "soon", LOST_UPDATE],
        ["run", "-k", "a and", LOST_UPDATE],
        ["run", "nowhere.twopc.yaml"],
        ["check", "nowhere.twopc.yaml"],
    ],
)
def test_wrong_usage(twopc, arguments):
    done = twopc(*arguments)
    assert done.returncode == exits.USAGE
    assert "Traceback" not in done.stderr
    assert done.stderr


def test_nothing_selected(twopc, tmp_path):
    done = twopc("run", LOST_UPDATE, "--order", "nobody")
    assert done.returncode == exits.NOTHING
    assert "nothing selected" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "-k", "nobody"], "there is no order that matches -k 'nobody'"),
        (
            ["run", "--tag", "none", "-k", "alice"],
            "there is no order of a scenario with --tag none that matches -k 'alice'",
        ),
        (
            ["matrix", "--tag", "none"],
            "there is no order of a scenario with --tag none; `twopc list` shows tags",
        ),
    ],
)
def test_nothing_selected_names_what_was_asked_for(twopc, words, message):
    done = twopc(*words, LOST_UPDATE)
    assert (done.returncode, done.stderr) == (exits.NOTHING, f"nothing selected: {message}\n")


def test_check(twopc):
    done = twopc("check", ROOT / "scenarios")
    assert done.returncode == 0
    assert all(line.endswith(": ok") for line in done.stdout.splitlines())
    bad = ROOT / "tests/scenario/bad/unknown_key.twopc.yaml"
    done = twopc("check", LOST_UPDATE, bad)
    assert done.returncode == exits.USAGE
    assert f"{bad}:10:5: error: unknown key 'row', did you mean 'rows'?" in done.stderr
    assert "lost_update.twopc.yaml: ok" in done.stdout
    untidy = ROOT / "tests/scenario/bad/warnings_only.twopc.yaml"
    assert twopc("check", untidy).returncode == 0
    assert twopc("check", "--strict", untidy).returncode == exits.USAGE


def test_a_bad_file_is_not_run(twopc, tmp_path):
    bad = ROOT / "tests/scenario/bad/unknown_key.twopc.yaml"
    other = ROOT / "tests/scenario/bad/step_word.twopc.yaml"
    done = twopc("run", other, LOST_UPDATE, bad)
    assert done.returncode == exits.USAGE
    assert "unknown key 'row'" in done.stderr
    assert f"{other}:" in done.stderr
    assert not list(tmp_path.iterdir())


def test_no_server_there(twopc, tmp_path):
    dsn = "pub=host=127.0.0.1 port=1 dbname=x user=nobody password=sesame"
    done = twopc("run", LOST_UPDATE, "--dsn", dsn)
    assert done.returncode == exits.ENVIRONMENT
    assert "Traceback" not in done.stderr
    assert "sesame" not in done.stderr + done.stdout
    verdict = json.loads(
        (tmp_path / ".twopc/runs/lost-update/latest/verdict.json").read_text(encoding="utf-8")
    )
    assert (verdict["verdict"], verdict["exit_code"]) == ("error", exits.ENVIRONMENT)


def test_unwritable_place(twopc, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = twopc("run", LOST_UPDATE, "--out", tmp_path / "file")
    assert done.returncode == exits.ENVIRONMENT
    assert "give another place by --out DIR" in done.stderr


def test_a_run_that_passes(twopc, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "180")  # wide enough for each step to stay on one line
    done = twopc("run", LOST_UPDATE)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == f"{LOST_UPDATE}  1 Publisher, 2 Subscribers"
    assert any(line.startswith("  ✓ alice first ") for line in lines)
    assert any("⧗ waits for alice (a_write) at pub" in line for line in lines)
    assert any("✗ refused: version_mismatch" in line for line in lines)
    assert "4 orders passed in" in lines[-1]
    assert "\x1b" not in done.stdout
    run = tmp_path / ".twopc/runs/lost-update/latest"
    assert json.loads((run / "verdict.json").read_text(encoding="utf-8"))["verdict"] == "pass"
    assert len(read(run / "history.jsonl")) > 50


def test_a_run_that_fails(twopc, tmp_path, monkeypatch):
    monkeypatch.setenv("TWOPC_ON", "model")
    wrong = tmp_path / "wrong.twopc.yaml"
    wrong.write_text(
        LOST_UPDATE.read_text(encoding="utf-8").replace(
            "{id: 1, balance: 90}", "{id: 1, balance: 80}"
        ),
        encoding="utf-8",
    )
    done = twopc("run", wrong, "--order", "alice first", "--no-timeline")
    assert done.returncode == exits.SAFETY
    assert (
        "account at pub, sub1, sub2: expected {id: 1, balance: 80}, got {id: 1, balance: 90}"
        in done.stdout
    )
    assert f"{wrong}:45:38" in done.stdout
    assert f'again:  twopc run {wrong} --order "alice first"' in done.stdout
    assert "b_write: update account" in done.stdout  # the timeline is part of the explanation
    run = tmp_path / ".twopc/runs/lost-update/latest"
    verdict = json.loads((run / "verdict.json").read_text(encoding="utf-8"))
    assert (verdict["verdict"], verdict["kind"], verdict["exit_code"]) == ("fail", "safety", 1)
    assert verdict["first_failure"]["line"] == 45


def test_json_and_several_files(twopc, monkeypatch):
    monkeypatch.setenv("TWOPC_ON", "model")
    folder = ROOT / "scenarios/immediate"
    done = twopc("run", folder, "-k", "insert-insert or (aba and there)", "--json", "--out", "runs")
    assert done.returncode == 0
    verdicts = [json.loads(line) for line in done.stdout.splitlines()]
    assert [verdict["scenario"] for verdict in verdicts] == ["aba", "insert-insert"]
    assert all(verdict["directory"].startswith("runs/") for verdict in verdicts)
    assert "orders passed" in done.stderr


def test_an_interrupted_run_leaves_its_evidence_and_nothing_else(tmp_path):
    source = """\
twopc: 1
name: endless
about: x
topology: {publisher: pub, subscribers: [sub1]}
tables: {t: {columns: {id: int primary key}}}
sessions: {a: {node: pub, steps: [sleep: {sql: select pg_sleep(600), timeout: 10m}]}}
orders: [{name: one, steps: [sleep]}]
"""
    (tmp_path / "endless.twopc.yaml").write_text(source, encoding="utf-8")
    history = tmp_path / ".twopc/runs/endless/latest/history.jsonl"
    words = ("--log-level", "debug", "run", "endless.twopc.yaml", "--junit", "all.xml")
    with running(*words, cwd=tmp_path) as process:
        until(
            lambda: history.exists() and '"invoke"' in history.read_text(encoding="utf-8"), process
        )
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == exits.INTERRUPTED
    assert "interrupted" in err
    assert "Traceback" not in err
    assert (
        json.loads((history.parent / "verdict.json").read_text(encoding="utf-8"))["kind"]
        == "interrupted"
    )
    assert "the history ends before its verdict" in (tmp_path / "all.xml").read_text(
        encoding="utf-8"
    )
    postmaster = re.search(r"server started.*pid=(\d+)", ANSI.sub("", err))
    assert postmaster is not None
    assert not psutil.pid_exists(int(postmaster[1]))


def test_kept_for_a_look(tmp_path):
    dsns = {}
    words = ("run", LOST_UPDATE, "--order", "alice first", "--keep")
    with running(*words, cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        for line in process.stderr:  # ends with the process, even if the line does not come
            if line.startswith("kept until"):
                break
            found = re.fullmatch(r'alice first: (\w+): psql "(.*)"\n', line)
            dsns[found[1]] = found[2]
        with psycopg.connect(dsns["sub1"]) as connection:
            assert connection.execute("select balance from account").fetchall() == [(90,)]
        assert set(dsns) == {"pub", "sub1", "sub2"}
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(dsns["sub1"])


@pytest.mark.parametrize(
    ("arguments", "until_line"),
    [(["check"], ""), (["run"], ""), (["run", "--timeline"], "  ✓ ")],
    ids=["check", "run", "during a run"],
)
def test_nobody_reads_to_the_end(tmp_path, arguments, until_line):
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)  # soon full: the command cannot run far ahead
    with open(reading, encoding="utf-8") as reader:
        if not until_line:
            reader.close()
        words = ("--log-level=debug", *arguments, LOST_UPDATE.parent)
        unbuffered = {"PYTHONUNBUFFERED": ""}
        with running(*words, cwd=tmp_path, env=unbuffered, stdout=writing) as process:
            os.close(writing)
            if until_line:
                assert any(line.startswith(until_line) for line in reader)
                reader.close()
            _, err = process.communicate(timeout=60)
    assert process.returncode == exits.UNREAD
    assert not re.search("Traceback|Exception ignored|BrokenPipe|internal error|selector", err)
    if until_line:
        postmaster = re.search(r"server started.*pid=(\d+)", ANSI.sub("", err))
        assert not psutil.pid_exists(int(postmaster[1]))
        verdicts = sorted((tmp_path / ".twopc/runs").glob("*/latest/verdict.json"))
        kinds = [json.loads(path.read_text(encoding="utf-8"))["kind"] for path in verdicts]
        assert kinds.count("unread") == 1


ANSI = re.compile(r"\x1b\[[0-9;]*m")


def until(condition, process, *, seconds=60):
    """Wait until the condition holds, as long as the process lives."""
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.01)


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("lost", True),
        ("LOST and alice", True),
        ("lost and not alice", False),
        ("bob or (alice and not bob)", True),
        ("not (lost or won)", False),
        ("not not lost", True),
    ],
)
def test_selector(expression, matches):
    assert selector(expression)("lost-update::alice first") is matches


@pytest.mark.parametrize("expression", ["", "and", "a b", "(a", "a)", "not", "a or"])
def test_no_selector(expression):
    with pytest.raises(ScenarioError, match="write words with and, or, not"):
        selector(expression)


def test_scenario_files(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("b/two.twopc.yaml", "one.twopc.yaml", "other.yaml"):
        (tmp_path / name).write_text("", encoding="utf-8")
    found = scenario_files([tmp_path, tmp_path / "one.twopc.yaml", tmp_path / "other.yaml"])
    assert [path.name for path in found] == ["two.twopc.yaml", "one.twopc.yaml", "other.yaml"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(ScenarioError, match="no scenario files"):
        scenario_files([tmp_path / "empty"])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ScenarioError("x"), 2),
        (ServerError("x"), 4),
        (ConflictError("x"), 1),
        (InDoubtError("x"), 3),
        (RuntimeError("x"), 70),
    ],
)
def test_exit_codes(error, code, capsys):
    assert exits.exit_code(error) == code
    assert "x" in capsys.readouterr().err


def test_the_worst_is_reported():
    assert exits.worst([0, 3, 1, 6]) == 1
    assert exits.worst([0, 6, 3]) == 6
    assert exits.worst([0, 4, 1]) == 4
    assert exits.worst([]) == exits.NOTHING


@pytest.mark.parametrize(
    ("arguments", "level"),
    [
        (["check", "nowhere"], "warning"),
        (["run", "nowhere"], "error"),
        (["--log-level", "info", "run", "nowhere"], "info"),
    ],
)
def test_what_is_logged(twopc, monkeypatch, arguments, level):
    """Commands that play scenarios log errors only: warnings of servers are often intended."""
    configured = []
    monkeypatch.setattr("twopc.log.configure", lambda **said: configured.append(said["level"]))
    twopc(*arguments)
    assert configured == [level]


def test_a_run_that_hangs_has_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    """A run that hangs has its own exit code, as it is no internal error, and has no traceback."""
    error = HungError("nothing can happen any more, and a task still waits")
    assert exits.exit_code(error) == exits.LIVENESS
    assert capsys.readouterr().err == f"error: {error}\n"
