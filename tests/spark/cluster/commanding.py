"""Commands, one after the other in one process: ``python -m tests.spark.cluster.commanding`` reads a list a line.

A process that has had a Spark of its own cannot be a client of Spark Connect: so it is another than the tests'.
"""

from __future__ import annotations

import json
import sys
import traceback

from typer.testing import CliRunner

from twopc.sim.cli import app


def main() -> None:
    """Say of each its exit code and what it printed, a line of JSON each."""
    for line in sys.stdin:
        ended = CliRunner().invoke(app, json.loads(line))
        error = ended.exception
        wrong = "" if error is None else "".join(traceback.format_exception(error))
        sys.stdout.write(json.dumps([ended.exit_code, ended.output + wrong]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
