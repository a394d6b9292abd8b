"""Runs the cases of a run: group by group, optionally several at a time, and repeatedly.

All cases run in one event loop, each on its own stage. Their outcomes are reported in the order in which the cases
were started, not in that of their ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from twopc.sim.report.history import HistoryRecord
from twopc.sim.scenario.cases import CaseGroup
from twopc.sim.scenario.judging import OrderVerdict
from twopc.sim.scenario.values import Case, CaseLesson

#: Maximum number of repetitions of a run that repeats until a failure.
UNTIL_FAIL_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseOutcome:
    """Outcome of a case."""

    case: Case
    learned: CaseLesson
    verdict: OrderVerdict | None
    """None if the case is infeasible and was not judged."""
    records: Sequence[HistoryRecord]


@dataclass(slots=True)
class Series:
    """A course with the outcome of each time that it was played."""

    group: CaseGroup
    rank: int
    case: Case
    outcomes: list[CaseOutcome] = field(default_factory=list)

    @property
    def is_infeasible(self) -> bool:
        """Whether the course cannot be played as written."""
        return any(outcome.verdict is None for outcome in self.outcomes)

    @property
    def failed(self) -> int:
        """Number of failures."""
        return sum(bool(each.verdict and each.verdict.kind) for each in self.outcomes)

    @property
    def behaviours(self) -> int:
        """Number of different behaviours."""
        return len({each.verdict.behaviour for each in self.outcomes if each.verdict})


Play = Callable[[Case], Awaitable[CaseOutcome]]
Tell = Callable[[CaseOutcome], None]
Over = Callable[[CaseGroup, Sequence[Series]], None]


class Jobs:
    """Runner of groups of cases.

    Args:
        play: plays one case on its own stage.
        tell: receives each outcome, in the order in which the cases were started.
        over: receives each group with its series, after all of its outcomes.
        at_once: number of cases that run concurrently.
        seed: seed of the run, passed to every case.
    """

    def __init__(
        self, play: Play, *, tell: Tell, over: Over, at_once: int = 1, seed: int = 0
    ) -> None:
        self._play = play
        self._tell = tell
        self._over = over
        self._at_once = max(1, at_once)
        self._seed = seed

    async def run(
        self, groups: Sequence[CaseGroup], *, repeat: int = 1, until_fail: bool = False
    ) -> list[Series]:
        """Play every course of every group, and repeat all of them as requested."""
        times = repeat if repeat > 1 or not until_fail else UNTIL_FAIL_MAX
        first = _FirstPass(groups, seed=self._seed, over=self._over if times == 1 else None)
        await self._all(first)
        series = [each for each in first.series if not each.is_infeasible]
        for number in range(2, times + 1):
            if until_fail and any(each.failed for each in series):
                break
            await self._all(_RepeatPass(series, number, seed=self._seed))
        if times > 1:
            for group in groups:
                self._over(group, [each for each in first.series if each.group is group])
        return first.series

    async def _all(self, course: _FirstPass | _RepeatPass) -> None:
        """Play all courses, a limited number at a time, until there are no more and none is running."""
        running: dict[asyncio.Task[CaseOutcome], tuple[int, Series]] = {}
        ended: dict[int, tuple[Series, CaseOutcome]] = {}
        begun = text = 0
        try:
            while True:
                while len(running) < self._at_once and (following := course.next()) is not None:
                    series, case = following
                    running[asyncio.ensure_future(self._play(case))] = begun, series
                    begun += 1
                course.settle()
                if not running:
                    return
                done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in [each for each in running if each in done]:
                    place, series = running.pop(task)
                    ended[place] = series, task.result()
                    course.learn(*ended[place])
                while text in ended:
                    series, outcome = ended.pop(text)
                    series.outcomes.append(outcome)
                    self._tell(outcome)
                    text += 1
        finally:
            for task in running:  # there are some only if the run is given up
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)


class _FirstPass:
    """First pass over every course of every group; a result may make other courses unnecessary."""

    def __init__(self, groups: Sequence[CaseGroup], *, seed: int, over: Over | None) -> None:
        self.series: list[Series] = []
        self._groups = groups
        self._seed = seed
        self._over = over
        self._dry: set[int] = set()
        """Groups that had no further course at the last request."""
        self._announced = 0

    def next(self) -> tuple[Series, Case] | None:
        for at, group in enumerate(self._groups):
            course = group.courses.next()
            if course is not None:
                rank, items = course
                case = group.case(rank, items, seed=self._seed)
                self.series.append(Series(group=group, rank=rank, case=case))
                return self.series[-1], case
            self._dry.add(at)
        return None

    def learn(self, series: Series, outcome: CaseOutcome) -> None:
        series.group.courses.learn(series.rank, outcome.learned)
        self._dry.clear()

    def settle(self) -> None:
        """Report the completed groups in order."""
        while self._over is not None and self._announced in self._dry:
            group = self._groups[self._announced]
            own = [each for each in self.series if each.group is group]
            if not all(each.outcomes for each in own):
                return
            self._over(group, own)
            self._announced += 1


class _RepeatPass:
    """Another pass over every series."""

    def __init__(self, series: Sequence[Series], number: int, *, seed: int) -> None:
        self._left = iter(series)
        self._number = number
        self._seed = seed

    def next(self) -> tuple[Series, Case] | None:
        one = next(self._left, None)
        if one is None:
            return None
        return one, one.group.case(one.rank, one.case.items, repeat=self._number, seed=self._seed)

    def learn(self, series: Series, outcome: CaseOutcome) -> None:
        """Do nothing: a repetition provides no new information."""

    def settle(self) -> None:
        """Do nothing: repeated groups are reported after the last pass."""
