"""The directory of one run: ``.twopc/runs/<name>/<time>-<seed>/``.

``history.jsonl`` is written during the run; the other files are derived from it at the end: ``verdict.json``,
``sequence.mmd``, ``state/<node>.json``, and ``report.html`` of a run that did not pass. ``env.json`` records
the environment of the run. The symbolic link ``latest`` beside the directory points to the newest run.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

from twopc.errors import ConfigurationError
from twopc.sim.report.forms import DOCUMENTS, final_states, first_diagram
from twopc.sim.report.verdict import verdict

if TYPE_CHECKING:
    from twopc.sim.report.history import HistoryRecord

ROOT = Path(".twopc/runs")


class RunFiles:
    """The files of one run; a context manager that closes the history."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.history: TextIO = (directory / "history.jsonl").open("w", encoding="utf-8")

    @classmethod
    def create(cls, name: str, root: Path | None = None, *, seed: int = 0) -> Self:
        """Create a directory for a new run.

        Args:
            name: name of the scenario.
            root: the directory of all runs; `ROOT` by default.
            seed: seed of the run, which is part of the directory's name.

        Raises:
            ConfigurationError: the directory cannot be created.
        """
        above = (root or ROOT) / name
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
        try:
            above.mkdir(parents=True, exist_ok=True)
            directory = _make_one(above, f"{stamp}-{seed}")
            _point(above / "latest", directory.name)
            return cls(directory)
        except OSError as error:
            raise ConfigurationError(
                f"{above}: cannot write there ({error.strerror}); give another place by --out DIR"
            ) from error

    def write_verdict(self, verdict: Mapping[str, Any]) -> None:
        """Write ``verdict.json``."""
        _write_json(self.directory / "verdict.json", verdict)

    def write_environment(self, facts: Mapping[str, Any]) -> None:
        """Write ``env.json``: versions, settings and all random values, which are needed to play the run again."""
        _write_json(self.directory / "env.json", facts)

    def finish(self, records: Sequence[HistoryRecord], *, html: bool = False) -> Mapping[str, Any]:
        """Write all files that are derived from the history, and return the verdict.

        Args:
            records: the whole history.
            html: write the page even if the run has passed.
        """
        summary = verdict(records)
        self.write_verdict(summary)
        (self.directory / "sequence.mmd").write_text(first_diagram(records), encoding="utf-8")
        states = self.directory / "state"
        states.mkdir(exist_ok=True)
        for node, orders in final_states(records).items():
            _write_json(states / f"{node}.json", orders)
        if html or summary["verdict"] != "pass":
            page = DOCUMENTS["html"](records)
            (self.directory / "report.html").write_text(page, encoding="utf-8")
        return summary

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.history.close()


def _write_json(path: Path, value: Any) -> None:
    text = json.dumps(value, indent=2, ensure_ascii=False, default=str)
    path.write_text(text + "\n", encoding="utf-8")


def _make_one(above: Path, name: str) -> Path:
    """Create the first of `name`, `name`.2, `name`.3 … that does not exist: several runs may begin in one second."""
    number = 1
    while True:
        directory = above / (name if number == 1 else f"{name}.{number}")
        try:
            directory.mkdir()
        except FileExistsError:
            number += 1
        else:
            return directory


def _point(link: Path, target: str) -> None:
    """Replace `link` atomically by a link to the new run; where links are not supported there is none."""
    fresh = link.with_name(f".latest-{os.getpid()}")
    with contextlib.suppress(OSError):
        fresh.symlink_to(target)
        fresh.replace(link)
