"""``twopc explore --export DIR``: the page with every listed order of a folder, for a plain file server.

The server's answers are stored beside the page as files: `twopc.sim.explore.wire.files.StaticIndex`. The same scenarios
give the same bytes.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twopc.errors import ConfigurationError, ScenarioError
from twopc.sim.explore import description
from twopc.sim.explore.folder import MissingError, OpenFolder
from twopc.sim.explore.lessons.source import lessons
from twopc.sim.explore.lessons.wire import answer_json, lessons_json
from twopc.sim.explore.model_worker import ModelBench
from twopc.sim.explore.plays import play
from twopc.sim.explore.wire.files import FileContent, StaticFile, StaticIndex, StaticOrder
from twopc.sim.explore.wire.runs import PlayAnswer, WireRun
from twopc.sim.scenario.check import LoadedScenario

PAGE = Path(__file__).parent / "page"
#: Files of the page's folder that are needed only to build the page.
_SOURCES = ("*.mjs", "package*.json", "*.entry.js", "node_modules")
_DATA = "data"
#: File that identifies an export, which may be overwritten.
_MARKER = ".twopc-export"


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticExport:
    """Summary of a written export."""

    orders: int
    unreadable: Sequence[str]
    """Errors of files that could not be read; only the error of such a file is shown."""


def write(folder: OpenFolder, target: Path, *, present: bool = False) -> StaticExport:
    """Write the page and its data; an existing export stays until the new one is complete.

    Raises:
        ConfigurationError: the target is not empty and no export, or cannot be written.
    """
    target = target.absolute()
    marker = target / _MARKER
    if target.exists() and not (target.is_dir() and (marker.exists() or not any(target.iterdir()))):
        raise ConfigurationError(
            f"{target} holds something that is no export: name a folder that is new or empty"
        )
    try:
        target.mkdir(parents=True, exist_ok=True)
        marker.touch()
        with tempfile.TemporaryDirectory(dir=target, prefix=".new-") as name, chdir(folder.root):
            fresh = Path(name, "page")
            shutil.copytree(PAGE, fresh, ignore=shutil.ignore_patterns(*_SOURCES))
            written = _StaticData(folder, fresh / _DATA).all(present=present)
            for each in sorted(fresh.iterdir()):
                if each.is_dir() and (target / each.name).exists():
                    os.rename(target / each.name, Path(name, each.name))
                os.replace(each, target / each.name)
    except OSError as error:
        raise ConfigurationError(
            f"{error.filename or target}: cannot write there ({error.strerror})"
        ) from error
    return written


class _StaticData:
    """Writer of the data. The folder must be the current directory, as scenarios include files relative to it."""

    def __init__(self, folder: OpenFolder, data: Path) -> None:
        self._folder = folder
        self._data = data
        self._bench = ModelBench()

    def all(self, *, present: bool) -> StaticExport:
        """Write all data."""
        listed = self._bench.list(self._folder)
        files: list[StaticFile] = []
        unreadable: list[str] = []
        for number, entry in enumerate(self._folder.entries(), 1):
            loaded: LoadedScenario | None = None
            try:
                text = self._folder.read_entry(entry)
                document, loaded = self._bench.examined(entry.path, text)
                content = description.content(entry.path, text, document, loaded)
            except MissingError as error:
                unreadable.append(str(error))
                content = description.unreadable_content(entry.path, str(error))
            name = self._put(f"files/{number}.json", content)
            orders = self._orders(number, loaded, content)
            files.append({"path": entry.path, "file": name, "orders": orders})
        index: StaticIndex = {
            "listing": {
                "root": self._folder.name,
                "files": listed,
                "present": present,
                "read_only": True,
            },
            "files": files,
            "lessons": self._put("lessons.json", lessons_json()),
            "answers": {
                f"{lesson.number}.{question.number}": self._put(
                    f"answers/{lesson.number}.{question.number}.json",
                    answer_json(lesson.number, question.number),
                )
                for lesson in lessons()
                for question in lesson.questions
            },
        }
        self._put("index.json", index)
        orders_count = sum(len(each["orders"]) for each in files)
        return StaticExport(orders=orders_count, unreadable=unreadable)

    def _orders(
        self, number: int, loaded: LoadedScenario | None, content: FileContent
    ) -> list[StaticOrder]:
        if content["scenario"] is None or loaded is None:
            return []
        results: list[StaticOrder] = []
        for place, order in enumerate(content["scenario"]["orders"], 1):
            try:
                done = play(loaded, {"order": order["steps"], "listed": order["name"]})
            except ScenarioError:
                continue  # the model does not support the order; the file is shown without it
            run: WireRun = {**done.run, "elapsed_ms": 0.0}
            answer: PlayAnswer = {"run": run, "listed": done.chosen.listed, "compared": None}
            name = self._put(f"plays/{number}-{place}.json", answer)
            results.append({"name": order["name"], "play": name})
        return results

    def _put(self, name: str, value: Any) -> str:
        place = self._data / name
        place.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
        place.write_text(text, encoding="utf-8")
        return name
