"""Tests of `--accept`, which writes outcomes into the file as expectations, where that is allowed.

Outcomes are the same on servers and on the model (tests/agreement): one test uses servers, the
others do not.
"""

from __future__ import annotations

import os

import pytest

from tests.cli.files import ACCOUNT, OPEN, STUCK, WRONG
from twopc.sim.cli import exits


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Return a function that writes a scenario file; CI is not set."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TWOPC_ON", "model")

    def write(text: str):
        path = tmp_path / "account.twopc.yaml"
        path.write_bytes(text.encode())
        return path

    return write


def test_it_is_expected_afterwards(twopc, file):
    path = file(WRONG)
    done = twopc("run", path, "--accept", "--no-timeline")
    assert done.returncode == exits.PASS, done.stderr
    assert "-      sessions: {alice: rolled back}" in done.stdout
    assert "+      sessions: {alice: committed}" in done.stdout
    assert path.read_text(encoding="utf-8") == WRONG.replace(
        "sessions: {alice: rolled back}", "sessions: {alice: committed}"
    ).replace(
        "b_write: ok  # he is not",
        "b_write: {blocked_by: a_write, then: {rejected: version_mismatch}}  # he is not",
    ).replace("b_write: {blocked_by: a_write, then: {rejected", "b_write: {rejected").replace(
        "version_mismatch}}", "version_mismatch}"
    )
    assert twopc("run", path).returncode == exits.PASS
    again = path.read_text(encoding="utf-8")
    assert twopc("run", path, "--accept").returncode == exits.PASS
    assert path.read_text(encoding="utf-8") == again


def test_what_the_file_leaves_open_is_filled_in(twopc, file):
    """Outcomes that the file leaves open, as an imported spec does, are filled in once."""
    path = file(OPEN)
    done = twopc("run", path, "--accept", "--no-timeline")
    assert done.returncode == exits.PASS, done.stderr
    assert path.read_text(encoding="utf-8") == OPEN.replace(
        "    expect: {otherwise: any}\n",
        "    expect: {otherwise: any, steps: {"
        "a_begin: ok, a_read: {rows: [{balance: 100}]}, "
        "b_begin: ok, b_read: {rows: [{balance: 100}]}, a_write: ok, "
        "b_write: {blocked_by: a_write, then: {rejected: version_mismatch}}, "
        "a_end: ok, b_end: rolled back}}\n",
    )
    again = path.read_text(encoding="utf-8")
    assert twopc("run", path, "--accept", "--no-timeline").returncode == exits.PASS
    assert path.read_text(encoding="utf-8") == again


def test_not_in_ci(twopc, file, monkeypatch):
    path = file(WRONG)
    monkeypatch.setenv("CI", "true")
    done = twopc("run", path, "--accept")
    assert done.returncode == exits.USAGE
    assert "refused where CI is set" in done.stderr
    assert path.read_text(encoding="utf-8") == WRONG
    assert not os.path.exists(".twopc")


def test_what_must_hold_is_never_accepted(twopc, file):
    """If an invariant fails, nothing is written, not even the other outcomes."""
    broken = WRONG.replace("    expect:  # wrongly\n", "    expect:\n      echoed: 3\n")
    path = file(broken)
    done = twopc("run", path, "--accept")
    assert done.returncode == exits.SAFETY
    assert "must hold whatever happens; mend the cause" in done.stderr
    assert "left as it is" in done.stderr
    assert path.read_text(encoding="utf-8") == broken


def test_a_hang_and_a_count_are_never_accepted(twopc, file):
    path = file(STUCK)
    assert twopc("run", path, "--accept").returncode == exits.LIVENESS
    assert path.read_text(encoding="utf-8") == STUCK
    counted = ACCOUNT.replace("committed: {exactly: 1}", "committed: {exactly: 2}")
    path = file(counted)
    done = twopc("run", path, "--accept", "--no-timeline")
    assert done.returncode == exits.SAFETY
    assert "it counts over many orders" in done.stderr
    assert path.read_text(encoding="utf-8") == counted


def test_a_twin_is_never_accepted(twopc, file):
    text = WRONG + "twin: {protections: {marker: off}, must_fail: no_lost_update}\n"
    path = file(text)
    done = twopc("run", path, "--accept", "--no-timeline")
    assert done.returncode == exits.SAFETY
    assert "a twin says which check must fail" in done.stderr
    assert path.read_text(encoding="utf-8") == text


def test_there_must_be_a_file(twopc, file):
    assert twopc("run", "-", "--accept").returncode == exits.USAGE


@pytest.mark.postgres
def test_ends_of_lines_stay(twopc, file, monkeypatch):
    monkeypatch.delenv("TWOPC_ON")
    path = file(WRONG.replace("\n", "\r\n"))
    assert twopc("run", path, "--accept", "--no-timeline").returncode == exits.PASS
    assert b"sessions: {alice: committed}\r\n" in path.read_bytes()
    assert path.read_bytes().count(b"\r\n") == path.read_bytes().count(b"\n")
