"""Commands that run as processes, for tests that end them or that read what they print meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


@contextmanager
def running(
    *words: object, cwd: Path = ROOT, env: dict[str, str] | None = None, **pipes: Any
) -> Iterator[subprocess.Popen[str]]:
    """Run a command line as a process, which does not outlive the block.

    Args:
        env: variables besides those of this process.
        pipes: arguments of `subprocess.Popen`; standard output and error are read unless they differ.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "twopc.sim", *map(str, words)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(env or {})},
        text=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **pipes},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=60)  # closes its pipes
