"""Playing of scenario files for pytest, and the presentation of outcomes without a Python traceback."""

from __future__ import annotations

import io
import shlex
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twopc.errors import ScenarioError
from twopc.sim.report.causes import because_of
from twopc.sim.report.fold import Fold
from twopc.sim.report.history import History, HistoryRecord
from twopc.sim.report.terminal import console, failure, failure_story
from twopc.sim.scenario.cases import groups
from twopc.sim.scenario.check import LoadedScenario, load
from twopc.sim.scenario.judging import FailedCheck, OrderVerdict
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.theatres import TheatreOptions, played, theatre
from twopc.sim.scenario.values import Case, Selection

if TYPE_CHECKING:
    from twopc.sim.scenario.stage import Theatre
    from twopc.sim.testing.bench import Bench

_WIDTH = 100


@dataclass(slots=True, kw_only=True)
class FileOutcome:
    """The outcome of one order of a file, or of several."""

    loaded: LoadedScenario
    history: History
    verdicts: list[OrderVerdict] = field(default_factory=list)
    cases: list[Case] = field(default_factory=list)
    of_case: dict[str, list[HistoryRecord]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    """Failures of orders that are judged together: generated or repeated ones."""

    @property
    def skipped(self) -> str:
        """Why nothing was played: twins whose protections cannot be switched off here. Empty: something was."""
        if self.verdicts:
            return ""
        return next((each.message for each in self.records if each.kind == "twin_skipped"), "")

    @property
    def failed(self) -> list[OrderVerdict]:
        """Verdicts with failures."""
        return [each for each in self.verdicts if each.failures]

    @property
    def is_wrong(self) -> bool:
        """Whether an order failed, or orders that are judged together did."""
        return bool(self.failed or self.wrong)

    @property
    def failures(self) -> list[FailedCheck]:
        """Failures of all verdicts."""
        return [each for verdict in self.failed for each in verdict.failures]

    @property
    def records(self) -> list[HistoryRecord]:
        """Records of the whole history."""
        return self.history.records

    def text(self) -> str:
        """Return the failures: the place in the file, the expectation, and why it was not met."""
        out = io.StringIO()
        screen = console(out, width=_WIDTH)
        document = self.loaded.document
        for verdict in self.failed:
            screen.print(f"✗ {verdict.name}", markup=False, highlight=False)
            for each in verdict.failures:
                mark = document.mark(each.path)
                where = f"{mark.path or document.path}:{mark.line}:{mark.column}"
                failure(screen, where, document.excerpt(mark), each.message)
                report = {"message": each.message, "kind": each.kind, "check": each.check}
                failure_story(screen, *because_of(Fold(self.of_case.get(verdict.name, ())), report))
        for one in self.wrong:
            screen.print(f"✗ {one}", markup=False, highlight=False)
        return out.getvalue().rstrip()

    def reproduce(self) -> str:
        """Return the command that plays the first failed case again."""
        words = ["twopc", "run", self.loaded.document.path]
        words += ["--order", self.failed[0].name] if self.failed else []
        on = next(iter(self.records)).data or {}
        words += ["--on", str(on["on"])] if on.get("on", "postgres") != "postgres" else []
        seed = next((each.seed for each in self.cases if each.seed), 0)
        return shlex.join([*words, *(["--seed", str(seed)] if seed else [])])


def names(path: Path) -> tuple[LoadedScenario, list[tuple[str, int]]]:
    """Return a file's items: names, and their lines in the file.

    Raises:
        ScenarioError: the file is invalid; the message names every place.
    """
    loaded = load(path)
    return loaded, [
        (group.name, loaded.document.mark(group.at).line) for group in groups(loaded, Selection())
    ]


class FilePlayer:
    """Plays scenario files on the servers of a bench; one for all files, so that prepared topologies are reused.

    Args:
        bench: None if no server is needed.
        on: ``postgres``, or ``model``.
    """

    def __init__(self, bench: Bench | None, *, on: str = "postgres") -> None:
        self._bench = bench
        self._on = on
        self._stack: AsyncExitStack | None = None
        self._theatre: Any = None

    def play(self, loaded: LoadedScenario, selection: Selection) -> FileOutcome:
        """Play the selected orders.

        Raises:
            ScenarioError: nothing is selected, or a server refuses the file's setup.
        """
        if self._bench is None:
            return played(self._on, self._play_elsewhere(loaded, selection))
        return self._bench.call(self._play, loaded, selection)

    async def _play_elsewhere(self, loaded: LoadedScenario, selection: Selection) -> FileOutcome:
        async with theatre(self._on, TheatreOptions(seed=selection.seed)) as stages:
            return await self._played(stages, loaded, selection)

    async def _play(self, loaded: LoadedScenario, selection: Selection) -> FileOutcome:
        if self._theatre is None:
            assert self._bench is not None
            self._stack = AsyncExitStack()
            made = PostgresTheatre(server=self._bench.server)
            self._theatre = await self._stack.enter_async_context(made)
        return await self._played(self._theatre, loaded, selection)

    async def _played(
        self, stages: Theatre, loaded: LoadedScenario, selection: Selection
    ) -> FileOutcome:
        outcome = FileOutcome(loaded=loaded, history=History())

        def heard(case: Case, verdict: OrderVerdict, records: Sequence[HistoryRecord]) -> None:
            outcome.cases.append(case)
            outcome.verdicts.append(verdict)
            outcome.of_case[case.name] = list(records)

        verdict = await run(loaded, stages, outcome.history, selection=selection, listener=heard)
        outcome.wrong = [
            f"{group['name']}: {group['notes']}"
            for group in verdict.facts.get("groups", ())
            if group["kind"] and not group["failed"]
        ]
        if all(record.kind == "header" for record in outcome.records):
            raise ScenarioError(
                f"{loaded.document.path}: no order is called {', '.join(map(repr, selection.orders))}"
                if selection.orders
                else f"{loaded.document.path}: nothing of it is selected"
            )
        return outcome

    def close(self) -> None:
        """Drop prepared topologies."""
        if self._stack is not None and self._bench is not None:
            stack, self._stack, self._theatre = self._stack, None, None
            self._bench.call(stack.aclose)
