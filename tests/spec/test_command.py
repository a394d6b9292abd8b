"""Tests of ``twopc import spec`` and ``twopc export spec`` on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.in_process import Done
from tests.cli.in_process import twopc as run_command

ROOT = Path(__file__).parents[2]
SPECS = Path(__file__).parent / "specs"


@pytest.fixture
def twopc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Return a function that runs the command in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    return run_command


def test_a_spec_becomes_a_file_that_is_right(twopc, tmp_path) -> None:
    done = twopc("import", "spec", SPECS / "blocking.spec", "-o", "blocking.twopc.yaml")

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "blocking.twopc.yaml: written\n"
    text = (tmp_path / "blocking.twopc.yaml").read_text(encoding="utf-8")
    assert text.startswith("# imported from blocking.spec\ntwopc: 1\nname: blocking\n")
    checked = twopc("check", "--strict", "blocking.twopc.yaml")
    assert checked.stdout == "blocking.twopc.yaml: ok\n"


def test_it_is_printed_where_no_file_is_named(twopc) -> None:
    done = twopc("import", "spec", SPECS / "star.spec")

    assert done.returncode == 0
    assert "    steps: [s1w, s2w, s1c, s2look]\n" in done.stdout


def test_a_file_that_is_there_is_not_lost(twopc, tmp_path) -> None:
    (tmp_path / "mine.yaml").write_text("mine", encoding="utf-8")
    arguments = ("import", "spec", SPECS / "star.spec", "-o", "mine.yaml")

    done = twopc(*arguments)
    assert done.returncode == 2
    assert "mine.yaml is there already; --force writes over it" in done.stderr
    assert (tmp_path / "mine.yaml").read_text(encoding="utf-8") == "mine"

    assert twopc(*arguments, "--force").returncode == 0
    assert (tmp_path / "mine.yaml").read_text(encoding="utf-8") != "mine"


def test_mistakes_are_all_told_and_nothing_is_written(twopc, tmp_path) -> None:
    (tmp_path / "bad.spec").write_text("sesion s\nsession t\nstep a SELECT 1\n", encoding="utf-8")

    done = twopc("import", "spec", "bad.spec", "-o", "out.yaml")

    assert done.returncode == 2
    assert "bad.spec:1:1: error: expected setup, teardown, session or permutation" in done.stderr
    assert "bad.spec:3:8: error: expected the SQL of step 'a' in braces" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.yaml").exists()


def test_a_file_that_is_not_there(twopc) -> None:
    done = twopc("import", "spec", "nowhere.spec")

    assert done.returncode == 2
    assert "nowhere.spec: cannot read it: No such file or directory" in done.stderr


def test_an_expected_output_is_compared(twopc, tmp_path) -> None:
    spec, out = SPECS / "blocking.spec", tmp_path / "mine.out"
    right = (SPECS / "blocking.out").read_text(encoding="utf-8")
    out.write_text(right.replace("     80\n", "     81\n"), encoding="utf-8")

    done = twopc("import", "spec", spec, "--expected", out)

    assert done.stdout.splitlines() == [
        f"{spec}: 2 of 3 permutations as in {out}",
        f"{out}:29: permutation: s1u s2u s1r s3look",
        "  step:     s3look",
        "  expected:      81",
        "  got:           80",
    ]
    assert done.returncode == 1

    (tmp_path / "mine_1.out").write_text(right, encoding="utf-8")
    done = twopc("import", "spec", spec, "--expected", out)
    assert done.stdout == f"{spec}: 3 of 3 permutations as in {tmp_path / 'mine_1.out'}\n"
    assert done.returncode == 0


def test_permutations_that_are_missing_differ(twopc, tmp_path) -> None:
    begin = "starting permutation:"
    parts = (SPECS / "blocking.out").read_text(encoding="utf-8").split(begin)
    (tmp_path / "mine.out").write_text(
        begin.join([*parts[:2], " no such step\n", parts[3]]), encoding="utf-8"
    )

    done = twopc("import", "spec", SPECS / "blocking.spec", "--expected", "mine.out")

    assert done.returncode == 1
    assert "blocking.spec: 2 of 4 permutations as in mine.out" in done.stdout
    assert "got:      it was not played to its end" in done.stdout
    assert "expected: the end of the file" in done.stdout


def test_what_is_no_expected_output_is_refused_before_anything_is_played(twopc) -> None:
    done = twopc("import", "spec", SPECS / "blocking.spec", "--expected", SPECS / "star.spec")

    assert done.returncode == 2
    assert "star.spec:1: no line begins with 'starting permutation:'" in done.stderr


def test_there_and_back(twopc, tmp_path) -> None:
    twopc("import", "spec", SPECS / "blocking.spec", "-o", "blocking.twopc.yaml")

    done = twopc("export", "spec", "blocking.twopc.yaml", "-o", "again.spec")

    assert done.returncode == 0, done.stderr
    again = twopc("import", "spec", "again.spec")
    before = (tmp_path / "blocking.twopc.yaml").read_text(encoding="utf-8")
    assert again.stdout.partition("sessions:")[2] == before.partition("sessions:")[2]


def test_what_has_a_subscriber_is_not_exported(twopc) -> None:
    done = twopc("export", "spec", ROOT / "scenarios/immediate/aba.twopc.yaml")

    assert done.returncode == 2
    assert "is at a Subscriber; a spec knows one database" in done.stderr
