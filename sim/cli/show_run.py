"""Output of ``twopc run``: a line for each finished order, and for a failure everything that a reader needs.

This module shows verdicts; it judges nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twopc.sim.report import progress, terminal
from twopc.sim.report.causes import because_of
from twopc.sim.report.diff import parted
from twopc.sim.report.forms import course, group_line
from twopc.sim.report.groups import groups
from twopc.sim.report.judgement import word
from twopc.sim.scenario.accept import unsaid

if TYPE_CHECKING:
    from rich.console import Console

    from twopc.sim.report.history import History, HistoryRecord
    from twopc.sim.report.recorded_orders import PlayedOrder
    from twopc.sim.report.run_files import RunFiles
    from twopc.sim.scenario.check import LoadedScenario
    from twopc.sim.scenario.judging import FailedCheck, OrderVerdict
    from twopc.sim.scenario.values import Case, CaseCounts

#: Maximum length of a message beside the caret; longer ones are printed below.
_BESIDE_MAX = 90


class Show:
    """Prints each group of orders when it has finished; `case` and `group` are called for every case and group."""

    def __init__(
        self,
        loaded: LoadedScenario,
        console: Console,
        history: History,
        files: RunFiles,
        *,
        timeline: bool,
        as_json: bool = False,
    ) -> None:
        self._loaded = loaded
        self._console = console
        self._history = history
        self._files = files
        self._timeline = timeline
        self._as_json = as_json
        self._failures: dict[str, list[FailedCheck]] = {}
        """Failed checks by case."""
        self.unsaid: list[FailedCheck] = []
        """Outcomes for which a file has no expectation."""
        self.done = 0
        """Number of finished cases."""
        self.failed = 0
        self.groups = 0
        """Number of printed groups."""

    @property
    def failures(self) -> list[FailedCheck]:
        """Failed checks of all cases."""
        return [failure for of in self._failures.values() for failure in of]

    def case(self, case: Case, verdict: OrderVerdict, records: Sequence[HistoryRecord]) -> None:
        """Take the verdict of a finished case."""
        self._failures[case.name] = list(verdict.failures)
        self.unsaid += unsaid(case, records)
        self.done += 1
        self.failed += bool(verdict.kind)
        if self._as_json:
            print(
                progress.as_json(
                    "order",
                    name=case.name,
                    group=case.group,
                    verdict=word(verdict.kind),
                    elapsed_ms=round(verdict.elapsed_us / 1000, 3),
                    failures=[failure.message for failure in verdict.failures],
                ),
                flush=True,
            )

    def group(self, name: str, counts: CaseCounts) -> None:
        """Print a group whose cases have all finished."""
        del counts  # the counts are read from the history
        results = [each for each in groups(self._history.records) if each.name == name]
        self.groups += 1
        for group in results:
            group_line(group, self._console)
            terminal.difference(self._console, parted(group))
            for order in group.shown:
                if self._timeline or order.verdict["kind"]:
                    self._order(order, several=len(group.orders) > 1)
            for order in group.also_failed:
                verdict = order.verdict
                message = next((each["message"] for each in verdict["failures"]), verdict["kind"])
                terminal.also_failed(self._console, order.name, message, verdict["repro"] or "")
        if self._as_json and results:
            print(progress.as_json("group", **results[0].verdict()), flush=True)

    def _order(self, order: PlayedOrder, *, several: bool) -> None:
        """Print the failed expectations of an order, their causes, its events, and how to repeat it."""
        failures = order.verdict["failures"]
        if several:
            terminal.remark(self._console, f"{order.name}:")
        document = self._loaded.document
        for failure, report in zip(self._failures.get(order.name, ()), failures, strict=False):
            mark = document.mark(failure.path)
            beside = len(failure.message) <= _BESIDE_MAX
            terminal.failure(
                self._console,
                f"{mark.path or document.path}:{mark.line}:{mark.column}",
                document.excerpt(mark, failure.message if beside else ""),
                "" if beside else failure.message,
            )
            terminal.failure_story(self._console, *because_of(order.fold, report))
        if not several:
            terminal.remark(self._console, order.about)
        course(order, self._console)
        if failures:
            terminal.print_repeat(self._console, order.verdict["repro"], str(self._files.directory))


def broken(loaded: LoadedScenario, error: BaseException) -> dict[str, Any]:
    """Return the verdict of a run that could not begin, or was broken off."""
    import asyncio

    from twopc.errors import ConfigurationError, ScenarioError
    from twopc.sim.cli.exits import ENVIRONMENT, INTERNAL, INTERRUPTED, UNREAD, USAGE

    kind, code = "internal", INTERNAL
    if isinstance(error, ConfigurationError):
        kind, code = "environment", ENVIRONMENT
    elif isinstance(error, ScenarioError):
        kind, code = "scenario", USAGE
    elif isinstance(error, asyncio.CancelledError):
        kind, code = "interrupted", INTERRUPTED
    elif isinstance(error, BrokenPipeError):
        kind, code = "unread", UNREAD
    return {
        "schema": 1,
        "scenario": loaded.scenario.name,
        "file": loaded.document.path,
        "verdict": "error",
        "kind": kind,
        "exit_code": code,
        "message": str(error) or kind,
    }
