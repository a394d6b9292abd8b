"""Runs the selected orders of a scenario, with a history, and a verdict for each case.

The stages and the display of results are chosen by the caller.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twopc.sim.checkers import defaults
from twopc.sim.report import verdict as report
from twopc.sim.report.history import SCHEMA, History, HistoryRecord, OrderHistory
from twopc.sim.scenario.cases import EVERYTHING, CaseGroup
from twopc.sim.scenario.cases import groups as groups_of
from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.jobs import CaseOutcome, Jobs, Series
from twopc.sim.scenario.judging import FailedCheck, OrderVerdict, judge
from twopc.sim.scenario.refusals import refuse
from twopc.sim.scenario.runner import play_case
from twopc.sim.scenario.stage import SetUpError, Stage, Theatre
from twopc.sim.scenario.values import Case, CaseCounts, CaseLesson, Selection

__all__ = [
    "GroupListener",
    "Listener",
    "RunVerdict",
    "begin",
    "header",
    "refuse",
    "reproduce",
    "run",
]

#: Called after each case, with its records.
Listener = Callable[[Case, OrderVerdict, Sequence[HistoryRecord]], None]
#: Called for each group, including listed orders, after all of its cases.
GroupListener = Callable[[str, CaseCounts], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """Verdict on a scenario."""

    loaded: LoadedScenario
    orders: tuple[OrderVerdict, ...]
    """Verdict on every case that could be played, for each time that it was played."""
    facts: Mapping[str, Any] = field(repr=False)
    """The verdict derived from the complete history."""

    @property
    def kind(self) -> str:
        """The worst kind of failure; empty if all orders passed. See `twopc.sim.report.judgement.EXIT_CODES`."""
        return str(self.facts["kind"] or "")

    def as_json(self) -> dict[str, Any]:
        """Return the content of ``verdict.json``."""
        return dict(self.facts)


async def run(
    loaded: LoadedScenario,
    theatre: Theatre,
    history: History,
    *,
    selection: Selection = EVERYTHING,
    listener: Listener | None = None,
    groups: GroupListener | None = None,
) -> RunVerdict:
    """Play the selected orders and judge each case.

    Raises:
        NotPlayableError: the scenario needs a capability that the theatre lacks.
        ScenarioError: a server refuses the scenario's setup.
        ConfigurationError: no server is available.
    """
    refuse(loaded, theatre.capabilities)
    return await _Run(loaded, theatre, history, selection, listener, groups).play()


class _Run:
    def __init__(
        self,
        loaded: LoadedScenario,
        theatre: Theatre,
        history: History,
        selection: Selection,
        listener: Listener | None,
        groups_listener: GroupListener | None,
    ) -> None:
        self._loaded = loaded
        self._theatre = theatre
        self._history = history
        self._selection = selection
        self._listener = listener
        self._groups_listener = groups_listener
        self._verdicts: list[OrderVerdict] = []

    async def play(self) -> RunVerdict:
        selection = self._selection
        seed = selection.seed if selection.seed is not None else self._loaded.scenario.seed or 0
        clock = self._clock()
        if clock is not None:
            self._history.follow(clock)
        self._history.write("header", data=header(self._loaded, self._theatre, selection))
        jobs = Jobs(
            self._case, tell=self._report, over=self._group, at_once=selection.jobs, seed=seed
        )
        playable = [
            group for group in groups_of(self._loaded, selection) if self._is_playable(group)
        ]
        for each in await jobs.run(
            playable, repeat=selection.repeat, until_fail=selection.until_fail
        ):
            if len(each.outcomes) > 1:
                self._repeated(each)
        return RunVerdict(
            loaded=self._loaded,
            orders=tuple(self._verdicts),
            facts=report.verdict(self._history.records),
        )

    def _is_playable(self, group: CaseGroup) -> bool:
        """Return whether a group can be played here, and record a twin whose protection cannot be switched off."""
        possible = self._theatre.capabilities
        missing = sorted(group.twin.off - possible.protections) if group.twin is not None else []
        if missing:
            where = "the model" if possible.is_virtual else "real servers"
            what = " and ".join(missing)
            why = "; ".join(possible.why_on[name] for name in missing if name in possible.why_on)
            self._history.write(
                "twin_skipped",
                message=f"{group.name}: {what} cannot be switched off on {where}"
                f"{why and f': {why}'}",
                data={"group": group.name, "missing": missing},
            )
        return not missing

    # -- one case ----------------------------------------------------------------------------------

    async def _case(self, case: Case) -> CaseOutcome:
        own = self._history.of(case.name, clock=self._clock())
        repeats = self._selection.repeat > 1 or self._selection.until_fail
        begin(own, self._loaded, case, repeats=repeats)
        try:
            async with self._theatre.stage(case) as stage:
                own.write("info", message="stage", data=dict(stage.about))
                learned = await self._play(case, stage, own)
            if case.scenario.replay is not None:
                await self._replay(case, own)
        except SetUpError as error:
            raise error.within(self._loaded.document) from error
        own.write("end")
        if learned.infeasible_at is not None:
            return CaseOutcome(case=case, learned=learned, verdict=None, records=own.records)
        verdict = _judged(case, own.records)
        own.write("verdict", data=self._order(verdict))
        return CaseOutcome(case=case, learned=learned, verdict=verdict, records=own.records)

    async def _play(self, case: Case, stage: Stage, own: OrderHistory) -> CaseLesson:
        workload = case.scenario.workload
        if workload is None:
            limit_ms = self._selection.step_timeout_ms
            return await play_case(case, stage, own, step_timeout_ms=limit_ms)
        from twopc.sim.workload import load_play  # most files have no load

        text = self._selection.seed
        seed = text if text is not None else workload.seed
        return await load_play.play(
            case,
            stage,
            own,
            seed=case.seed if seed is None else seed,
            recording=self._selection.recording,
        )

    async def _replay(self, case: Case, own: OrderHistory) -> None:
        """Replay the case's load on a new stage in its initial state."""
        from twopc.sim.replay.loads import replay_load  # most files have no load

        async with self._theatre.stage(case) as stage:
            await replay_load(case, stage, own)

    def _clock(self) -> Callable[[], int] | None:
        """Return the loop's clock in nanoseconds if time is virtual, otherwise None."""
        if not self._theatre.capabilities.is_virtual:
            return None
        loop = asyncio.get_running_loop()
        time = getattr(loop, "virtual_time", loop.time)
        return lambda: round(time() * 1_000_000_000)

    def _report(self, outcome: CaseOutcome) -> None:
        if outcome.verdict is not None:
            self._verdicts.append(outcome.verdict)
            if self._listener is not None:
                self._listener(outcome.case, outcome.verdict, outcome.records)

    # -- records of the history --------------------------------------------------------------------

    def _group(self, group: CaseGroup, series: Sequence[Series]) -> None:
        counts = group.courses.counts
        if group.order.generate is not None:
            behaviours: dict[str, str] = {}
            for each in series:
                for outcome in each.outcomes[:1]:
                    if outcome.verdict is not None:
                        behaviours.setdefault(outcome.verdict.behaviour, outcome.case.name)
            self._history.write(
                "group",
                data={
                    "group": group.name,
                    **dataclasses.asdict(counts),
                    "behaviours": behaviours,
                },
            )
        if self._groups_listener is not None:
            self._groups_listener(group.name, counts)

    def _repeated(self, series: Series) -> None:
        self._history.write(
            "repeat",
            message=series.case.name,
            data={
                "group": series.group.name,
                "runs": len(series.outcomes),
                "failed": series.failed,
                "behaviours": series.behaviours,
            },
        )

    def _order(self, verdict: OrderVerdict) -> dict[str, Any]:
        """Return the data of a case's verdict for the history."""
        summary: dict[str, Any] = {
            "name": verdict.name,
            "group": verdict.group,
            "verdict": report.word(verdict.kind),
            "kind": verdict.kind or None,
            "elapsed_ms": round(verdict.elapsed_us / 1000, 3),
            "notes": list(verdict.notes),
            "failures": [self._failure(failure) for failure in verdict.failures],
            "behaviour": verdict.behaviour,
            "repro": reproduce(
                self._loaded,
                verdict.name,
                seed=self._selection.seed,
                on=self._theatre.capabilities.name,
            ),
        }
        if verdict.twin:
            summary["failed_checks"] = sorted(verdict.failed)
        return summary

    def _failure(self, failure: FailedCheck) -> dict[str, Any]:
        document = self._loaded.document
        mark = document.mark(failure.path)
        report: dict[str, Any] = {
            "message": failure.message,
            "kind": failure.kind,
            "line": mark.line,
            "column": mark.column,
            "excerpt": document.excerpt(mark),
            "check": failure.check,
            "expected": failure.expected_text,
            "actual": failure.actual_text,
        }
        if mark.path:
            report["file"] = mark.path
        return report


def _judged(case: Case, records: Sequence[HistoryRecord]) -> OrderVerdict:
    if case.scenario.workload is None:
        return judge(case, records)
    from twopc.sim.scenario.judging.load import judge_load  # most files have no load

    return judge_load(case, records)


def reproduce(
    loaded: LoadedScenario, order: str, *, seed: int | None = None, on: str = "postgres"
) -> str:
    """Return the command that plays one order again."""
    quoted = order.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`")
    command = f'twopc run {loaded.document.path} --order "{quoted}"'
    if on != "postgres":
        command += f" --on {on}"
    return command if seed is None else f"{command} --seed {seed}"


def begin(
    history: OrderHistory, loaded: LoadedScenario, case: Case, *, repeats: bool = False
) -> None:
    """Write the first record of a case: the nodes of its sessions, and the order that is played.

    Args:
        repeats: whether the case is played more than once.
    """
    scenario = case.scenario
    report: dict[str, Any] = {
        "sessions": {name: session.node for name, session in scenario.sessions.items()},
        "isolation": {node: scenario.level(case.order, node) for node in scenario.topology.nodes},
        "group": case.group,
        "line": loaded.document.mark(case.at).line,
    }
    if case.number:
        report["number"] = case.number
    if case.cell.values:
        report["cell"] = dict(case.cell.values)
    if case.twin is not None:
        report["twin"] = {"protections": sorted(case.off), "must_fail": case.twin.must_fail}
    if case.repeat > 1 or repeats:
        report["repeat"] = case.repeat
    history.write("order", message=case.order.about, data=report)


def header(loaded: LoadedScenario, theatre: Theatre, selection: Selection) -> dict[str, Any]:
    """Return the data of the first record of a run."""
    scenario = loaded.scenario
    report: dict[str, Any] = {
        "schema": SCHEMA,
        "scenario": scenario.name,
        "file": loaded.document.path,
        "about": " ".join(scenario.about.split()),
        "tags": list(scenario.tags),
        "invariants": list(defaults(merges=scenario.merges)),
        "publisher": scenario.topology.publisher,
        "subscribers": list(scenario.topology.subscribers),
        "shipping": scenario.topology.shipping,
        "commit": scenario.topology.commit,
        "on": theatre.capabilities.name,
    }
    if scenario.merges:
        report["replication"] = "merge"
    if scenario.topology.settings:
        report["settings"] = dict(scenario.topology.settings)
    seed = selection.seed if selection.seed is not None else scenario.seed
    if seed is not None or theatre.capabilities.is_virtual:
        report["seed"] = seed or 0
    return report
