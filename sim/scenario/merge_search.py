"""Search of all orders of a merging scenario's steps on the model, with merge sessions interrupted at every point.

A step is played completely, or until it is blocked. Of orders that differ only in the sequence of independent
steps, one is played: a statement affects its own node, and a merge session its two nodes
(`twopc.sim.scenario.ordering.footprint`).
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from twopc.drivers.points import MERGE_POINTS
from twopc.errors import ScenarioError
from twopc.sim.report.event_records import select
from twopc.sim.report.events import (
    AuthorNote,
    ConflictNote,
    FaultEffect,
    StepEnd,
    StepSuccess,
    TableLook,
)
from twopc.sim.report.history import History, HistoryRecord
from twopc.sim.report.merge_sessions import conflict_text
from twopc.sim.report.phrases import row_text
from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.expectations import Expect
from twopc.sim.scenario.faults import Fault
from twopc.sim.scenario.judging import judge
from twopc.sim.scenario.model import Order, OrderItem, Scenario
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.order_generation import Generate
from twopc.sim.scenario.ordering import courses
from twopc.sim.scenario.run import begin, header
from twopc.sim.scenario.runner import play_case
from twopc.sim.scenario.stage import SetUpError
from twopc.sim.scenario.twins import Twin
from twopc.sim.scenario.values import Case, CaseCounts, CaseLesson, Selection

#: Invariants of every order, regardless of the file's expectations for its own orders.
_INVARIANTS = ("converged", "nothing_lost")
_FAULT = "found_1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCut:
    """An interruption of a merge session."""

    at: str
    """Protocol point: ``merge.upload_applied(anna)``."""
    nth: int = 1
    """Number of the arrival, from 1."""

    @property
    def do(self) -> str:
        """Action of the fault."""
        return f"crash agent {self.at.partition('(')[2].removesuffix(')')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedCourse:
    """A course that has been played."""

    steps: tuple[str, ...]
    cut: SessionCut | None
    records: Sequence[HistoryRecord]
    lesson: CaseLesson
    broken: tuple[tuple[str, str], ...]
    """Violated invariants, or ``ends``, each with its message."""

    @property
    def has_struck(self) -> bool:
        """Whether the session reached the point of the interruption."""
        return next(select(self.records, FaultEffect), None) is not None

    @property
    def failed(self) -> tuple[str, ...]:
        """The steps that failed."""
        ends = (each for each in select(self.records, StepEnd) if each.step)
        return tuple(each.step for each in ends if not isinstance(each, (StepSuccess, AuthorNote)))

    @property
    def ending(self) -> str:
        """Description of the final state: equal for equal states."""
        tables: dict[str, list[str]] = {}
        for look in select(self.records, TableLook):
            if look.moment == "final":
                text = ", ".join(map(row_text, look.rows)) or "no rows"
                tables.setdefault(f"{look.table} {text}", []).append(look.node)
        parts = [*tables] if all(len(nodes) > 1 for nodes in tables.values()) else [
            f"{text} at {' and '.join(nodes)}" for text, nodes in tables.items()
        ]  # fmt: skip
        conflicts = sorted(map(conflict_text, select(self.records, ConflictNote)))
        return "; ".join([*parts, *conflicts])


@dataclass(slots=True, kw_only=True)
class MergeSearchResult:
    """Result of a search."""

    counts: CaseCounts = field(default_factory=lambda: CaseCounts(orders=0))
    runs: int = 0
    cuts: int = 0
    """Number of runs in which a session was interrupted."""
    endings: set[str] = field(default_factory=set)
    seconds: float = 0.0
    gave_up: bool = False
    broken: PlayedCourse | None = None


class MergeSearch:
    """A search.

    Args:
        only: sessions whose steps are played; empty: all sessions.
        off: protections that are switched off.
        runs: number of orders that are drawn at random; 0: all are played.
        crashes: 1: each order is also played with a merge session interrupted, at each point in turn.
        reduced: whether only one of equivalent orders is played.

    Raises:
        ScenarioError: the model does not support a part of the file.
    """

    def __init__(
        self,
        loaded: LoadedScenario,
        *,
        only: Collection[str] = (),
        off: Collection[str] = (),
        runs: int = 0,
        seed: int = 0,
        crashes: int = 0,
        seconds: float = 0.0,
        reduced: bool = True,
    ) -> None:
        if not loaded.scenario.sessions:
            raise ScenarioError(f"{loaded.document.path}: there are no sessions to search")
        sessions = tuple(name for name in loaded.scenario.sessions if not only or name in only)
        generate = Generate(
            sessions=sessions, limit=None, reduce="equivalent" if reduced else "none"
        )
        order = Order(name="every order", generate=generate)
        self._order = order.model_copy(update={"expect": _expected(loaded.scenario, sessions)})
        self._loaded = loaded
        self._scenario = loaded.cells[0][1].model_copy(
            update={"orders": (self._order,), "twins": (), "faults": (), "expect": Expect()}
        )
        switched = MappingProxyType(dict.fromkeys(off, "off"))
        self._twin = Twin.model_construct(protections=dict(switched), must_fail="") if off else None
        self._runs, self._seed, self._crashes, self._seconds = runs, seed, crashes, seconds
        self._began = 0.0

    async def search(self) -> MergeSearchResult:
        """Play orders until an invariant is violated, all are played, or the time limit is reached; in virtual
        time.
        """
        self._began = time.monotonic()
        result = MergeSearchResult()
        how = f"sample:{self._runs}" if self._runs else ""
        left = courses(self._scenario, self._order, seed=self._seed, how=how)
        while result.broken is None and (course := left.next()) is not None:
            rank, items = course
            steps = tuple(item.step or "" for item in items)
            played = await self._note(result, steps, None)
            left.learn(rank, played.lesson)
            if self._crashes and played.lesson.infeasible_at is None:
                await self._cut_off(result, steps)
            if self._is_late():
                result.gave_up = True
                break
        result.counts, result.seconds = left.counts, time.monotonic() - self._began
        if result.broken is not None:
            result.broken = await self._shortened(result.broken)
        return result

    def _is_late(self) -> bool:
        return bool(self._seconds) and time.monotonic() - self._began > self._seconds

    async def _note(
        self, result: MergeSearchResult, steps: tuple[str, ...], cut: SessionCut | None
    ) -> PlayedCourse:
        played = await self.play(steps, cut)
        result.runs += 1
        result.cuts += played.has_struck
        if played.broken:
            result.broken = played
        elif played.lesson.infeasible_at is None and played.has_struck == (cut is not None):
            result.endings.add(played.ending)
        return played

    async def _cut_off(self, result: MergeSearchResult, steps: tuple[str, ...]) -> None:
        """Play the order with an interrupted session, at one arrival after the other."""
        for cut in self._places():
            while result.broken is None and not self._is_late():
                played = await self._note(result, steps, cut)
                if not played.has_struck:
                    break
                cut = dataclasses.replace(cut, nth=cut.nth + 1)

    def _places(self) -> Iterator[SessionCut]:
        for subscriber in self._scenario.topology.subscribers:
            for point in MERGE_POINTS:
                yield SessionCut(at=point.replace("(node)", f"({subscriber})"))

    async def play(self, steps: tuple[str, ...], cut: SessionCut | None) -> PlayedCourse:
        """Play one course and check the invariants."""
        order, scenario = self._order, self._scenario
        if cut is not None:
            when = {"nth": cut.nth}
            fault = Fault.model_validate({"id": _FAULT, "at": cut.at, "do": cut.do, "when": when})
            order = order.model_copy(update={"faults": (_FAULT,)})
            scenario = scenario.model_copy(update={"faults": (fault,)})
        case = Case(
            name="found", group="found", scenario=scenario, order=order, at=("sessions",), number=1,
            items=tuple(OrderItem(step=step) for step in steps), twin=self._twin, seed=self._seed,
        )  # fmt: skip
        history = History()
        theatre = ModelTheatre(seed=self._seed)
        history.write("header", data=header(self._loaded, theatre, Selection()))
        own = history.of(case.name)
        begin(own, self._loaded, case)
        try:
            async with theatre.stage(case) as stage:
                lesson = await play_case(case, stage, own)
        except SetUpError as error:
            raise error.within(self._loaded.document) from error
        verdict = judge(dataclasses.replace(case, twin=None), own.records)
        names = (*_INVARIANTS, "ends")
        return PlayedCourse(
            steps=steps,
            cut=cut,
            records=own.records,
            lesson=lesson,
            broken=tuple((f.check, f.message) for f in verdict.failures if f.check in names),
        )

    async def _shortened(self, course: PlayedCourse) -> PlayedCourse:
        """Return the shortest course found by removing sessions, and then last steps, that are not needed for the
        violation.
        """
        of_session = {name: session for name, (session, _) in self._scenario.steps.items()}
        for session in self._scenario.sessions:
            rest = tuple(step for step in course.steps if of_session[step] != session)
            course = await self._if_broken(course, rest)
        while len(course.steps) > 1:
            shorter = await self._if_broken(course, course.steps[:-1])
            if shorter is course:
                return course
            course = shorter
        return course

    async def _if_broken(self, course: PlayedCourse, steps: tuple[str, ...]) -> PlayedCourse:
        if not steps or steps == course.steps:
            return course
        played = await self.play(steps, course.cut)
        same = {name for name, _ in played.broken} & {name for name, _ in course.broken}
        return played if same and played.has_struck == course.has_struck else course


def _expected(scenario: Scenario, sessions: Collection[str]) -> Expect:
    """Return the invariants that the file does not exclude; reinitialising excludes `nothing_lost`."""
    begins_anew = any(
        step.action == "reinitialise"
        for name in sessions
        for _, step in scenario.sessions[name].named_steps
    )
    stated = {name: getattr(scenario.expect, name) for name in _INVARIANTS}
    if begins_anew:
        stated["nothing_lost"] = False
    return Expect(**{name: value for name, value in stated.items() if value is not None})
