"""Scenario files as tests: an item an order. They fail with what stands in the file, not with a traceback.

This is the only module of the plugin that loads the scenario language.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.fixtures import TopRequest

from twopc.errors import TwopcError
from twopc.sim.pytest_plugin import config as settings
from twopc.sim.pytest_plugin.marks import wrong
from twopc.sim.scenario.values import Selection

if TYPE_CHECKING:
    from twopc.sim.pytest_plugin.scenario_play import FileOutcome, FilePlayer
    from twopc.sim.scenario.check import LoadedScenario


class OrderFailedError(Exception):
    """An order did not go as its file expects."""

    def __init__(self, outcome: FileOutcome) -> None:
        super().__init__(outcome.failures[0].message)
        self.outcome = outcome


class ScenarioFile(pytest.File):
    """A file of the scenario language."""

    def collect(self) -> Iterator[ScenarioItem]:
        """Its orders, each in its cells, and its twins."""
        from twopc.sim.pytest_plugin.scenario_play import names

        try:
            loaded, result = names(shown(self.path))
        except TwopcError as error:
            raise self.CollectError(str(error)) from None
        for name, line in result:
            item = ScenarioItem.from_parent(self, name=name)
            item.loaded, item.line = loaded, line
            item.extra_keyword_matches.update(loaded.scenario.tags)
            yield item


class ScenarioItem(pytest.Item):
    """One order of a file, or all that a generated one stands for."""

    loaded: LoadedScenario
    line: int
    outcome: FileOutcome | None = None

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # as a doctest: no function, but fixtures can be asked for, which a project may override
        self.obj = None
        result = self.session._fixturemanager.getfixtureinfo(node=self, func=None, cls=None)
        self._fixtureinfo = result
        self.fixturenames = result.names_closure
        self.funcargs: dict[str, Any] = {}
        self._request = TopRequest(self, _ispytest=True)  # type: ignore[arg-type] # as pytest's own doctests do

    def setup(self) -> None:
        """Fixtures that are used by everything here."""
        self._request._fillfixtures()

    def runtest(self) -> None:
        """Play it and compare."""
        player: FilePlayer = self._request.getfixturevalue("twopc_player")
        self.outcome = player.play(self.loaded, selection(self.config, self.name))
        self._note()
        if self.outcome.skipped:
            pytest.skip(self.outcome.skipped)
        if self.outcome.is_wrong:
            if self.outcome.failed and self.config.getoption("twopc_accept"):
                accept(self.outcome)
                return
            raise OrderFailedError(self.outcome)

    def _note(self) -> None:
        assert self.outcome is not None
        seed = next((each.seed for each in self.outcome.cases if each.seed), 0)
        self.user_properties.append(("twopc_seed", seed))
        gids = {record.gid for record in self.outcome.records if record.gid}
        self.user_properties.append(("twopc_gids", " ".join(sorted(gids))))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What stands in the file, and why it was otherwise."""
        error = excinfo.value
        if isinstance(error, OrderFailedError):
            return error.outcome.text()
        if isinstance(error, TwopcError):
            return str(error)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Where it stands in the file."""
        return self.path, self.line - 1, f"{self.path.name}: {self.name}"

    def sections(self) -> list[tuple[str, str]]:
        """What a failure shows besides."""
        from twopc.sim.pytest_plugin.sections import picture, timeline

        if self.outcome is None or not self.outcome.failed:
            return []
        name = self.outcome.failed[0].name
        records = self.outcome.of_case[name]
        if any(each.kind == "load" for each in records):
            from twopc.sim.report.load import lines, of

            figures = "\n".join(lines(of(records)))
            return [("twopc load", figures), ("twopc reproduce", self.outcome.reproduce())]
        header = [each for each in self.outcome.records if each.kind == "header"][:1]
        return [
            ("twopc timeline", timeline(records)),
            ("twopc diagram", picture([*header, *records])),
            ("twopc reproduce", self.outcome.reproduce()),
        ]


def selection(config: pytest.Config, order: str) -> Selection:
    """What is played of a file, by the settings."""
    lines = settings.settings_of(config)
    return Selection(
        orders=(order,) if order else (),
        courses=lines.orders,
        seed=lines.seed,
        repeat=lines.repeat,
        step_timeout_ms=lines.timeout_ms,
    )


def accept(outcome: FileOutcome) -> None:
    """Write what has happened into the file.

    Raises:
        pytest.fail.Exception: it is not allowed, or not possible.
    """
    from twopc.sim.scenario.accept import accepted, refusals
    from twopc.sim.scenario.check import load, parse

    if os.environ.get("CI"):
        raise wrong("--twopc-accept is for a person at work, not for CI")
    path = Path(outcome.loaded.document.path)
    refused = refusals(outcome.failures)
    if refused:
        raise wrong("cannot be accepted:\n" + "\n".join(refused))
    try:
        document = load(path).document  # another of its orders may have been accepted before
        text = accepted(document, outcome.failures)
        parse(text, str(path))  # or nothing is written
    except TwopcError as error:
        raise wrong(str(error)) from None
    path.write_bytes(text.encode())


def shown(path: Path) -> Path:
    """As a person would name it: relative to where they are, if it is below."""
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path
