"""The directory of one run: ``.twopc/runs/<name>/<time>-<n>/`` with its history and verdict.

A link ``latest`` beside it points at the newest. Knows file names and nothing of what is in them.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TextIO

from twopc.errors import ConfigurationError

ROOT = Path(".twopc/runs")


class RunFiles:
    """Where one run writes; a context manager that closes the history."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.history: TextIO = (directory / "history.jsonl").open("w", encoding="utf-8")

    @classmethod
    def create(cls, name: str, root: Path | None = None) -> Self:
        """A directory that no other run has.

        Raises:
            ConfigurationError: it cannot be made.
        """
        above = (root or ROOT) / name
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        try:
            above.mkdir(parents=True, exist_ok=True)
            directory = _make_one(above, stamp)
            _point(above / "latest", directory.name)
            return cls(directory)
        except OSError as error:
            raise ConfigurationError(
                f"{above}: cannot write there ({error.strerror}); give another place by --out DIR"
            ) from error

    def write_verdict(self, verdict: Mapping[str, Any]) -> None:
        """Put the verdict beside the history."""
        text = json.dumps(verdict, indent=2, ensure_ascii=False)
        (self.directory / "verdict.json").write_text(text + "\n", encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.history.close()


def _make_one(above: Path, stamp: str) -> Path:
    """The first ``<stamp>-<n>`` that is not there yet: several runs may begin in one second."""
    number = 1
    while True:
        directory = above / f"{stamp}-{number}"
        try:
            directory.mkdir()
        except FileExistsError:
            number += 1
        else:
            return directory


def _point(link: Path, target: str) -> None:
    """Let `link` point at the new run at once; where links cannot be made there is none."""
    fresh = link.with_name(f".latest-{os.getpid()}")
    with contextlib.suppress(OSError):
        fresh.symlink_to(target)
        fresh.replace(link)
