"""Scenario files as tests: one item per order. Failures show the place in the file, not a traceback.

This is the only module of the plugin that imports the scenario language at collection.
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
    """An order did not meet the expectations of its file."""

    def __init__(self, outcome: FileOutcome) -> None:
        super().__init__(outcome.failures[0].message)
        self.outcome = outcome


class ScenarioFile(pytest.File):
    """A file of the scenario language."""

    def collect(self) -> Iterator[ScenarioItem]:
        """Yield the file's orders, each in its cells, and its twins."""
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
    """One order of a file, or all orders that a generated one represents."""

    loaded: LoadedScenario
    line: int
    outcome: FileOutcome | None = None

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        # like a doctest: there is no function, but fixtures can be requested, which a project may override
        self.obj = None
        result = self.session._fixturemanager.getfixtureinfo(node=self, func=None, cls=None)
        self._fixtureinfo = result
        self.fixturenames = result.names_closure
        self.funcargs: dict[str, Any] = {}
        self._request = TopRequest(self, _ispytest=True)  # type: ignore[arg-type] # as pytest's own doctests do

    def setup(self) -> None:
        """Set up fixtures that apply to every test."""
        self._request._fillfixtures()

    def runtest(self) -> None:
        """Play the order and compare it with the file's expectations."""
        player: FilePlayer = self._request.getfixturevalue("twopc_player")
        self.outcome = player.play(self.loaded, selection(self.config, self.name))
        seed = next((each.seed for each in self.outcome.cases if each.seed), 0)
        self.user_properties.append(("twopc_seed", seed))
        gids = {record.gid for record in self.outcome.records if record.gid}
        self.user_properties.append(("twopc_gids", " ".join(sorted(gids))))
        if self.outcome.skipped:
            pytest.skip(self.outcome.skipped)
        if self.outcome.is_wrong:
            if self.outcome.failed and self.config.getoption("twopc_accept"):
                accept(self.outcome)
                return
            raise OrderFailedError(self.outcome)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the expectation in the file, and why it was not met."""
        error = excinfo.value
        if isinstance(error, OrderFailedError):
            return error.outcome.text()
        if isinstance(error, TwopcError):
            return str(error)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the place in the file."""
        return self.path, self.line - 1, f"{self.path.name}: {self.name}"

    def sections(self) -> list[tuple[str, str]]:
        """Return the additional sections of a failure."""
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
    """Return the selection of a file's orders by the settings."""
    lines = settings.settings_of(config)
    return Selection(
        orders=(order,) if order else (),
        courses=lines.orders,
        seed=lines.seed,
        repeat=lines.repeat,
        step_timeout_ms=lines.timeout_ms,
    )


def accept(outcome: FileOutcome) -> None:
    """Write the actual results into the file.

    Raises:
        pytest.fail.Exception: this is not allowed, or not possible.
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
        # reloaded, since another of its orders may have been accepted
        document = load(path).document
        text = accepted(document, outcome.failures)
        parse(text, str(path))  # nothing is written unless the result is valid
    except TwopcError as error:
        raise wrong(str(error)) from None
    path.write_bytes(text.encode())


def shown(path: Path) -> Path:
    """Return a path relative to the working directory, if it is below it."""
    try:
        return path.relative_to(Path.cwd())
    except ValueError:
        return path
