"""Runs commands consecutively in one process: ``python -m tests.spark.cluster.commanding`` reads one list per line.

A process that has had its own Spark cannot be a client of Spark Connect, so this one is separate
from the tests'.
"""

from __future__ import annotations

import json
import sys
import traceback

from typer.testing import CliRunner

from twopc.sim.cli import app


def main() -> None:
    """Print the exit code and the output of each command as a line of JSON."""
    for line in sys.stdin:
        ended = CliRunner().invoke(app, json.loads(line))
        error = ended.exception
        wrong = "" if error is None else "".join(traceback.format_exception(error))
        sys.stdout.write(json.dumps([ended.exit_code, ended.output + wrong]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
