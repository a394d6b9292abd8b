"""Worker that plays on the model and reads files: ``python -m twopc.sim.explore.model_worker FILE|FOLDER``."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from twopc.errors import ScenarioError
from twopc.sim.explore import description
from twopc.sim.explore.difference import compared
from twopc.sim.explore.every_order import play_every
from twopc.sim.explore.export import export
from twopc.sim.explore.folder import MissingError, OpenFolder, unreadable
from twopc.sim.explore.plays import OrderPlay, play, variant_of
from twopc.sim.explore.wire.files import (
    FileContent,
    ListedFile,
    ScenarioTemplate,
    TemplateListing,
    WireProblem,
)
from twopc.sim.explore.wire.runs import ExportedText, OrdersEvent, PlayAnswer, PlayVariant
from twopc.sim.explore.worker import Answering, serve
from twopc.sim.scenario import check
from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.stage import SetUpError
from twopc.sim.scenario.text import Document, Problem
from twopc.sim.scenario.values import NotPlayableError

#: Niceness of a background process.
_NICE = 5
#: Limits of the cache: number of texts, and total characters, each of which takes some 80 bytes when parsed.
_KEPT_MAX = 200
_KEPT_CHARACTERS_MAX = 2_000_000


class BrokenScenarioError(ScenarioError):
    """The text has errors and cannot be played."""

    def __init__(self, message: str, errors: Sequence[WireProblem] = ()) -> None:
        super().__init__(message)
        self.errors = errors


class ModelBench:
    """Jobs of the worker, with a cache of parsed texts and of the last play."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, str], _ReadText] = {}
        self._last: tuple[LoadedScenario, PlayVariant, OrderPlay] | None = None

    def examined(self, path: str, text: str) -> tuple[Document, LoadedScenario | None]:
        """Return the document of a text with its errors, and its scenario if there are none."""
        known = self._read.pop((path, text), None)
        if known is None or known.sources != _changed_at(known.document):
            document, loaded = check.examine_text(text, path)
            known = _ReadText(document, loaded, _changed_at(document))
        self._read[path, text] = known
        while len(self._read) > 1 and (
            len(self._read) > _KEPT_MAX
            or sum(len(each) for _, each in self._read) > _KEPT_CHARACTERS_MAX
        ):
            del self._read[next(iter(self._read))]
        return known.document, known.loaded

    def loaded(self, path: str, text: str) -> LoadedScenario:
        """Return the scenario of a text.

        Raises:
            BrokenScenarioError: the text cannot be played.
        """
        document, loaded = self.examined(path, text)
        if document.errors or loaded is None:
            errors = [description.problem(document, each) for each in document.errors]
            raise BrokenScenarioError(document.report(severity="error"), errors)
        if loaded.scenario.workload is not None:
            raise BrokenScenarioError(f"{path}: {description.IS_LOAD}")
        return loaded

    @staticmethod
    def _play(loaded: LoadedScenario, variant: PlayVariant) -> OrderPlay:
        """Play an order; raise `BrokenScenarioError`, with the place, if the model does not support it."""
        try:
            return play(loaded, variant)
        except (SetUpError, NotPlayableError) as error:
            mark = loaded.document.mark(error.path)
            wrong = Problem(mark=mark, message=str(error))
            errors = [description.problem(loaded.document, wrong)]
            raise BrokenScenarioError(str(error), errors) from error

    # -- jobs ----------------------------------------------------------------------------------------

    def list(self, folder: OpenFolder) -> list[ListedFile]:
        """Return the files of a folder."""
        results = []
        for entry in folder.entries():
            try:
                text = folder.read_entry(entry)
            except MissingError as error:
                results.append(unreadable(entry.path, str(error)))
                continue
            document, loaded = self.examined(entry.path, text)
            results.append(description.listing(entry.path, document, loaded))
        return results

    def describe(self, request: Mapping[str, Any], _: Answering) -> FileContent:
        """Return a text with its scenario and its errors."""
        path, text = request["path"], request["text"]
        return description.content(path, text, *self.examined(path, text))

    def orders(self, request: Mapping[str, Any], answer: Answering) -> OrdersEvent:
        """Play every order."""
        loaded = self.loaded(request["path"], request["text"])
        return play_every(loaded, request, answer.event, lambda: answer.is_stopped)

    def export(self, request: Mapping[str, Any], _: Answering) -> ExportedText:
        """Export the order that is shown as a text."""
        loaded = self.loaded(request["path"], request["text"])
        name, kind = str(request.get("name") or ""), str(request.get("kind"))
        return export(loaded, variant_of(request), kind, name, request["path"])

    def templates(self, _request: Mapping[str, Any], _: Answering) -> TemplateListing:
        """Return the templates for new files."""
        results: list[ScenarioTemplate] = []
        for place in sorted((Path(__file__).parent / "templates").glob("*.twopc.yaml")):
            text = place.read_text(encoding="utf-8")
            scenario = self.loaded(place.name, text).scenario
            about = " ".join(scenario.about.split())
            results.append({"name": scenario.name, "about": about, "text": text})
        return {"templates": results}

    def lessons(self, _request: Mapping[str, Any], _: Answering) -> Any:
        """Return every lesson, without its answers."""
        from twopc.sim.explore.lessons.wire import lessons_json  # few users open the lessons

        return lessons_json()

    def lesson_answer(self, request: Mapping[str, Any], _: Answering) -> Any:
        """Return the answer to a lesson's question."""
        from twopc.sim.explore.lessons.wire import answer_json  # few users open the lessons

        return answer_json(request["lesson"], request["question"])

    def play(self, request: Mapping[str, Any], _: Answering) -> PlayAnswer:
        """Play an order."""
        loaded = self.loaded(request["path"], request["text"])
        variant = variant_of(request)
        done = self._play(loaded, variant)
        last, self._last = self._last, (loaded, variant, done)
        if request.get("before") is None:
            return {"run": done.run, "listed": done.chosen.listed, "compared": None}
        before = variant_of(request["before"])
        if last is None or last[0] is not loaded or last[1] != before:
            last = (loaded, before, play(loaded, before))
        what = compared(last[2].run, before, done.run, variant)
        return {"run": done.run, "listed": done.chosen.listed, "compared": what}


class _ReadText(NamedTuple):
    document: Document
    loaded: LoadedScenario | None
    sources: tuple[object, ...]
    """State of the files that the text includes."""


def _changed_at(document: Document) -> tuple[object, ...]:
    """Return the state of each included file, which changes with its content; unique if a file cannot be read."""
    if document.partial:
        return (object(),)
    try:
        states = ((each, Path(each).stat()) for each in document.sources)
        return tuple(
            (each, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns)
            for each, one in states
        )
    except OSError:  # the file has been removed since it was read
        return (object(),)


def main(opened: str, *background: str) -> None:
    """Serve jobs until the server has ended.

    Args:
        opened: the folder, or the only file of it that is shown.
        background: any value: run at a lower priority.
    """
    if background:
        os.nice(_NICE)
    folder, bench = OpenFolder(Path(opened)), ModelBench()
    os.chdir(folder.root)
    serve(
        {
            "list": lambda _values, _answer: bench.list(folder),
            "describe": bench.describe,
            "play": bench.play,
            "orders": bench.orders,
            "export": bench.export,
            "templates": bench.templates,
            "lessons": bench.lessons,
            "lesson_answer": bench.lesson_answer,
        }
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
