"""Tests that the tests pass wherever they are started, and do not depend on the caller's shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

#: Tests that send signals, read what commands print, and compare times and texts with a server's.
SELECTION = (
    "tests/cli/test_cli.py::test_an_interrupted_run_leaves_its_evidence_and_nothing_else",
    "tests/model/replication/test_values.py",
    "tests/publisher/test_values.py",
    "tests/report/test_story.py",
    "tests/report/test_command.py",
)


def test_another_locale_and_time_zone_in_the_background_without_a_terminal() -> None:
    """Tests pass as with ``nohup make test &``: SIGINT is ignored, and standard input is closed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SELECTION]
    surroundings = {"LC_ALL": "C", "LANG": "C", "TZ": "Asia/Kolkata", "COLUMNS": "37"}
    done = subprocess.run(
        ["sh", "-c", 'trap "" INT; exec "$@" <&-', "sh", *command],
        cwd=Path(__file__).parents[1],
        env={**os.environ, **surroundings, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        capture_output=True,
        start_new_session=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    assert b" passed" in done.stdout
