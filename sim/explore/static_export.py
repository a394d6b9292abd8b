"""``twopc explore --export DIR``: the page with every listed order of a folder, for a plain file server.

What the server would answer stands beside the page as files: `twopc.sim.explore.wire.StaticIndex`. The same scenarios
give the same bytes.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from twopc.errors import ConfigurationError, ScenarioError
from twopc.sim.explore import describing
from twopc.sim.explore.folder import OpenFolder
from twopc.sim.explore.lessons.wire import answer_json, lessons_json
from twopc.sim.explore.model_worker import ModelBench
from twopc.sim.explore.plays import play
from twopc.sim.explore.wire import (
    FileContent,
    ListedFile,
    PlayAnswer,
    StaticFile,
    StaticIndex,
    StaticOrder,
)
from twopc.sim.scenario.check import LoadedScenario

PAGE = Path(__file__).parent / "page"
#: What of the page's folder is needed to build it, and not to show it.
_SOURCES = ("*.mjs", "package*.json", "*.entry.js", "node_modules")
_DATA = "data"
#: By which a folder is known that may be written again: nothing else makes such a file.
_MARKER = ".twopc-export"


def write(folder: OpenFolder, target: Path, *, present: bool = False) -> int:
    """Write the page and what it shows; how many orders.

    Raises:
        ConfigurationError: the target holds something else, or cannot be written.
    """
    marker = target / _MARKER
    if target.exists() and not (target.is_dir() and (marker.exists() or not any(target.iterdir()))):
        raise ConfigurationError(
            f"{target} holds something that is no export: name a folder that is new or empty"
        )
    try:
        target.mkdir(parents=True, exist_ok=True)
        marker.touch()
        shutil.rmtree(target / _DATA, ignore_errors=True)
        shutil.copytree(
            PAGE, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_SOURCES)
        )  # fmt: skip
        return _StaticData(folder, target / _DATA).all(present=present)
    except OSError as error:
        raise ConfigurationError(
            f"{error.filename or target}: cannot write there ({error.strerror})"
        ) from error


class _StaticData:
    def __init__(self, folder: OpenFolder, data: Path) -> None:
        self._folder = folder
        self._data = data
        self._bench = ModelBench()

    def all(self, *, present: bool) -> int:
        """Everything; how many orders."""
        listed: list[ListedFile] = []
        files: list[StaticFile] = []
        for number, path in enumerate(self._folder.paths(), 1):
            text = self._folder.read(path)
            document, loaded = self._bench.examined(str(self._folder.root / path), text)
            listed.append(describing.listing(path, document, loaded))
            content = describing.content(path, text, document, loaded)
            name = self._put(f"files/{number}.json", content)
            orders = self._orders(number, loaded, content)
            files.append({"path": path, "file": name, "orders": orders})
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
                f"{lesson['number']}.{question}": self._put(
                    f"answers/{lesson['number']}.{question}.json",
                    answer_json(lesson["number"], question),
                )
                for lesson in lessons_json()
                for question in _questions(lesson["parts"])
            },
        }
        self._put("index.json", index)
        return sum(len(each["orders"]) for each in files)

    def _orders(
        self, number: int, loaded: LoadedScenario | None, content: FileContent
    ) -> list[StaticOrder]:
        if content["scenario"] is None or loaded is None:
            return []
        results: list[StaticOrder] = []
        for place, order in enumerate(content["scenario"]["orders"], 1):
            try:
                run = play(loaded, {"order": order["steps"]}).run
            except ScenarioError:
                continue  # the model does not know something; the file is shown without it
            answer: PlayAnswer = {"run": {**run, "elapsed_ms": 0.0}, "compared": None}
            name = self._put(f"plays/{number}-{place}.json", answer)
            results.append({"name": order["name"], "play": name})
        return results

    def _put(self, name: str, value: Any) -> str:
        place = self._data / name
        place.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
        place.write_text(text, encoding="utf-8")
        return name


def _questions(parts: Any) -> list[int]:
    """The numbers of a lesson's questions, those of exercises too."""
    results: list[int] = []
    for part in parts:
        if part["kind"] == "question":
            results.append(part["number"])
        results += _questions(part.get("parts", ()))
    return results
