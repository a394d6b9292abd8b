"""Tests of `twopc step`, whose commands are typed through a pipe."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.cli.files import ACCOUNT, STUCK
from tests.cli.processes import running
from twopc.sim.cli import exits
from twopc.sim.scenario.check import load


@pytest.fixture
def step(twopc, tmp_path, monkeypatch):
    """Return a function that types commands, by default on the model, and returns the output."""
    (tmp_path / "account.twopc.yaml").write_text(ACCOUNT, encoding="utf-8")
    (tmp_path / "stuck.twopc.yaml").write_text(STUCK, encoding="utf-8")
    monkeypatch.setenv("COLUMNS", "120")

    def run(*commands: str, name="account", arguments=(), code=exits.PASS, on="model"):
        monkeypatch.setenv("TWOPC_ON", on)
        reading, writing = os.pipe()
        with open(reading, encoding="utf-8") as typed, monkeypatch.context() as patch:
            with open(writing, "w", encoding="utf-8") as keyboard:
                keyboard.writelines(f"{command}\n" for command in commands)
            patch.setattr(sys, "stdin", typed)
            done = twopc("step", f"{name}.twopc.yaml", *arguments)
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout, done.stderr

    return run


@pytest.mark.parametrize("on", ["model", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_to_the_end(step, on):
    out, _ = step(*["n"] * 9, "n", "q", on=on)
    assert "(0 of 8, next: a_begin) n" in out
    assert "(6 of 8, next: a_end) n" in out
    assert "(8 of 8, next: deliver everything) n" in out
    assert "as expected" in out
    assert "(over) n\nit is over: b goes back, q leaves" in out
    after = out.partition("(5 of 8, next: b_write)")[2].partition("(6 of 8")[0]
    assert "b_write" in after
    assert "waits for alice" in after


def test_back_and_another_way(step, tmp_path):
    out, _ = step("b", *["n"] * 6, "b", "w", "f a_end", "f", "f b_nothing", "s mine.twopc.yaml")
    assert "this is the beginning" in out
    back = out.split("(6 of 8, next: a_end) b")[1]
    assert "(5 of 8, next: b_write) w" in back
    assert "alice: in a transaction" in back
    assert "comes next: b_write; by f STEP: a_end" in back
    assert "(6 of 8, next: b_write) f\nf STEP: these can: b_write" in back
    assert "'b_nothing' cannot come next; these can: b_write" in back
    assert "wrote mine.twopc.yaml with the order 'as walked'" in back
    saved = load(tmp_path / "mine.twopc.yaml").scenario
    assert [item.step for item in saved.orders[-1].steps] == [
        "a_begin", "a_read", "b_begin", "b_read", "a_write", "a_end",
    ]  # fmt: skip
    assert saved.orders[:-1] == load(tmp_path / "account.twopc.yaml").scenario.orders


def test_what_is_not_committed_is_shown_as_such(step):
    out, _ = step(*["n"] * 5, "w", *["n"] * 2, "q")
    shown = out.partition("(5 of 8, next: b_write) w")[0]
    assert shown.count("○ id 1, balance 90") == 2  # at sub1 and at the Publisher
    assert shown.count("id 1, balance 100") > 3  # which all other sessions see
    after = out.partition("(6 of 8, next: a_end) n")[2]
    assert "○" not in after


def test_a_later_step_of_another_session(step):
    """A step's predecessors are played first, and `w` shows the same next step as the prompt."""
    out, _ = step("f b_write", "w", "n", "n", "n", "w", "n", "w", "q")
    assert "(3 of 8, next: a_begin) w" in out
    assert "comes next: a_begin; by f STEP: b_end" in out
    assert "(6 of 8, next: a_end, which is queued) w" in out
    assert "comes next: a_end, which is queued; by f STEP: b_end" in out


def test_looking(step):
    out, _ = step(*["n"] * 2, "p", "?", "what", "s", "s account.twopc.yaml", "f zzz", "")
    assert "there is no command 'what'; ? lists them" in out
    assert "n, Enter    play what comes next" in out
    assert "s FILE: where to?" in out
    assert "account.twopc.yaml is there already" in out
    assert "a_read: select balance" in out
    assert "(2 of 8, next: b_begin) \n" in out


def test_a_generated_order(step):
    out, _ = step("n", "q", arguments=["--order", "every order #3"])
    assert "every order #3" in out
    _, err = step(arguments=["--order", "nobody"], code=exits.NOTHING)
    assert "no order is called 'nobody'; there is 'alice first', 'every order'" in err


def test_what_cannot_go_on(step):
    out, _ = step(*["n"] * 7, "b", "f a_end", *["n"] * 3, name="stuck")
    stuck = out.index("(7 of 9, stuck, next: end everything) b")
    assert "it cannot go on" not in out[:stuck]
    assert "✗ stuck: b_write waits at pub for alice (a_write)" in out[:stuck]
    assert "(6 of 9, next: {wait: b_write done}) f a_end" in out[stuck:]
    assert "this was your own way" in out[stuck:]


def test_it_needs_a_file(twopc):
    done = twopc("step", "-")
    assert done.returncode == exits.USAGE
    assert "standard input is where you type" in done.stderr


@pytest.mark.postgres
def test_somebody_gives_up(tmp_path):
    """After Ctrl-C at a prompt, with a step that waits, nothing remains."""
    (tmp_path / "account.twopc.yaml").write_text(ACCOUNT, encoding="utf-8")
    words = ("--log-level", "debug", "step", "account.twopc.yaml")
    with running(*words, cwd=tmp_path, stdin=subprocess.PIPE) as process:
        process.stdin.write("n\n" * 6)
        process.stdin.flush()
        seen = ""
        while "(6 of 8, next: a_end) " not in seen:
            read = process.stdout.read(1)
            assert read, process.stderr.read()
            seen += read
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == exits.INTERRUPTED
    assert err.endswith("interrupted\n")
    assert "server stopped" in err
    assert "Traceback" not in err
