"""Folder of a sweep's results.

The file ``sweep.json`` holds the request and the list of result files; a file that is not listed is ignored. Both
are replaced atomically: a sweep that is killed loses only the wave in progress.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twopc.errors import ScenarioError
from twopc.sim.scenario.text import Document
from twopc.sim.spark.errors import PipelineError
from twopc.sim.spark.sweep.grid import Point

if TYPE_CHECKING:
    import pyarrow

FORMAT = 1
NAME = "sweep.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """The request of a sweep; a sweep can be resumed only with the same request."""

    scenario: str
    file: str
    sha256: str
    """Digest of the scenario's text and of the files that it includes."""
    order: str
    points: tuple[Point, ...]

    @property
    def digest(self) -> str:
        """Four hex digits of a digest of the grid, for a folder's name that stays the same if the scenario changes."""
        text = json.dumps([self.order, [each.settings for each in self.points]])
        return hashlib.sha256(text.encode()).hexdigest()[:4]


def asked(document: Document, points: Sequence[Point], order: str) -> SweepRequest:
    """Return the request for a whole document."""
    assert document.root is not None, "the file was checked before"
    text = hashlib.sha256(document.text.encode())
    for path in sorted(document.sources):
        text.update("\n".join([path, *document.sources[path]]).encode())
    return SweepRequest(
        scenario=str(document.root.get("name", "scenario")),
        file=document.path,
        sha256=text.hexdigest(),
        order=order,
        points=tuple(points),
    )


def folder(root: Path, sweep: SweepRequest, *, resume: bool) -> Path:
    """Return the default folder of a sweep: a new one, or on resumption that of the last sweep with the same grid."""
    stem = f"{sweep.scenario}-{sweep.digest}"
    number = 1
    while (root / (stem if number == 1 else f"{stem}-{number}")).exists():
        number += 1
    number -= resume and number > 1
    return root / (stem if number == 1 else f"{stem}-{number}")


class Results:
    """The results in one folder.

    Raises:
        ScenarioError: the folder holds another sweep or another version of the scenario, or the sweep is not to be
            resumed.
        PipelineError: the existing results cannot be read.
    """

    def __init__(self, path: Path, sweep: SweepRequest, *, resume: bool) -> None:
        self.path = path
        self._asked = sweep
        self._waves: list[dict[str, Any]] = []
        if (path / NAME).exists():
            result = self._read()
            if result["waves"] and not resume:
                raise ScenarioError(
                    f"{path} holds a sweep already: --resume goes on with it, --out names another folder"
                )
            if result["waves"]:  # otherwise no result is stored
                self._waves = self._fitting(result)
        (path / "results").mkdir(parents=True, exist_ok=True)
        self._write()

    def _read(self) -> dict[str, Any]:
        try:
            text: dict[str, Any] = json.loads((self.path / NAME).read_text(encoding="utf-8"))
            known, _ = text["twopc_sweep"], text["waves"]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise PipelineError(f"{self.path / NAME}: not what a sweep leaves: {error}") from error
        if known != FORMAT:
            raise PipelineError(f"{self.path / NAME}: version {known}; this program reads {FORMAT}")
        return text

    def _fitting(self, report: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the waves of a report if they belong to this sweep and their files are complete."""
        if report["points"] != self._about()["points"] or report["order"] != self._asked.order:
            raise ScenarioError(f"{self.path} holds another sweep: other values, or another order")
        if report["sha256"] != self._asked.sha256:
            raise ScenarioError(
                f"{self.path}: the scenario is another one since: begin again with another --out"
            )
        waves: list[dict[str, Any]] = report["waves"]
        for each in waves:
            file = self.path / each["file"]
            has = file.stat().st_size if file.exists() else 0
            if has != each["bytes"]:
                raise PipelineError(
                    f"{file} has {has:,} bytes and should have {each['bytes']:,}: restore it, or take its "
                    f"entry out of {NAME}, and its trials are played again"
                )
        return waves

    def _about(self) -> dict[str, Any]:
        text = dataclasses.asdict(self._asked)
        text["points"] = [[list(pair) for pair in each.settings] for each in self._asked.points]
        return {
            "twopc_sweep": FORMAT, "program": f"twopc {version('twopc')}", **text, "waves": self._waves,
        }  # fmt: skip

    def _write(self) -> None:
        text = json.dumps(self._about(), ensure_ascii=False, indent=1) + "\n"
        _replace(self.path / NAME, text.encode())

    def add(self, table: pyarrow.Table) -> None:
        """Store the results of a wave durably."""
        import pyarrow
        import pyarrow.parquet

        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(table, sink, compression="zstd")
        content = sink.getvalue().to_pybytes()
        name = f"results/wave-{len(self._waves) + 1:05d}.parquet"
        _replace(self.path / name, content)
        self._waves.append({"file": name, "trials": table.num_rows, "bytes": len(content)})
        self._write()

    def finished(self) -> set[tuple[int, int]]:
        """Return the stored trials, as point and seed."""
        return {(row["point"], row["seed"]) for row in self.rows(["point", "seed"])}

    def rows(self, columns: Sequence[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yield all stored rows, wave by wave."""
        import pyarrow.parquet

        for each in self._waves:
            file = pyarrow.parquet.ParquetFile(self.path / each["file"])
            for batch in file.iter_batches(columns=None if columns is None else list(columns)):
                yield from batch.to_pylist()


def _replace(path: Path, content: bytes) -> None:
    """Replace a file atomically and durably, so that a power failure leaves the old content or the new one."""
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
