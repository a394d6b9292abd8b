"""Courses of one order, returned by rank, without those that earlier courses have made unnecessary."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

from twopc.sim.scenario.model import Order, OrderItem, Scenario
from twopc.sim.scenario.order_generation import Generate
from twopc.sim.scenario.ordering.enumerate import Space
from twopc.sim.scenario.ordering.search import LOOK_AT_MAX, OrderSearch
from twopc.sim.scenario.values import CaseCounts, CaseLesson

Course = tuple[int, tuple[OrderItem, ...]]


class ListedCourse:
    """A single course."""

    def __init__(self, items: tuple[OrderItem, ...], rank: int = 1) -> None:
        self._course: Course | None = (rank, items)
        self._learned: CaseLesson | None = None

    def next(self) -> Course | None:
        """Return the course at the first call, then None."""
        course, self._course = self._course, None
        return course

    def learn(self, rank: int, learned: CaseLesson) -> None:
        """Record the result, for `counts`; there are no other courses."""
        self._learned = learned

    @property
    def counts(self) -> CaseCounts:
        """Counts of the single course."""
        if self._learned is None:
            return CaseCounts(orders=1)
        if self._learned.infeasible_at is not None:
            return CaseCounts(orders=1, infeasible=1)
        return CaseCounts(orders=1, run=1, behaviours=1)


class RankedCourse(ListedCourse):
    """The course of a given rank of a generated order.

    Raises:
        IndexError: the order has fewer courses.
    """

    def __init__(self, scenario: Scenario, order: Order, rank: int) -> None:
        assert order.generate is not None, "a listed order has one course only"
        steps = space_of(scenario, order.generate).unrank(rank)
        super().__init__(items_of(steps), rank)


class GeneratedCourses:
    """All courses that fulfil an order's constraints, one of each class of equivalent courses."""

    def __init__(self, scenario: Scenario, order: Order, seed: int = 0, how: str = "") -> None:
        assert order.generate is not None, "a listed order has one course only"
        generate = order.generate
        self._space = space_of(scenario, generate)
        self._together = generate.together
        self._limit, self._sample, self._reduces = _mode(generate, seed, how)
        self._search = OrderSearch(scenario, order, self._space)
        self._left = self._search.orders() if self._reduces else self._space.every()
        if self._sample is not None:
            self._left = map(self._space.unrank, drawn(self._space.count, *self._sample))
        self._seen: set[int] = set()
        self._peeked: tuple[str, ...] | None = None
        self._is_over = False
        self._given: dict[int, tuple[str, ...]] = {}
        self._learned: dict[int, CaseLesson] = {}
        self._known_infeasible = 0
        """Orders of a sample that are known to be infeasible without having been run."""

    def next(self) -> Course | None:
        """Return the next course to run.

        None is returned if the limit is reached, if there are no more courses, or if the result of a course that is
        being played may make the next one unnecessary.
        """
        if self._is_full():
            if self._all_known and self._peeked is None:
                self._peeked = self._following()  # to know whether the limit leaves out an order
            return None
        order, self._peeked = self._peeked or self._following(), None
        if order is None:
            return None
        rank = self._space.rank(order)
        self._given[rank] = order
        return rank, items_of(order)

    def _following(self) -> tuple[str, ...] | None:
        while not self._is_over:
            order = next(self._left, None)
            if order is None:
                if self._reduces and self._sample is None and self._search.has_put_off:
                    if not self._all_known:
                        return None
                    self._left = self._search.put_off()
                    continue
                self._is_over = True
                return None
            if not self._reduces:
                return order
            key = self._search.classes.key(order)
            if key in self._seen:
                continue
            self._seen.add(key)
            if not self._search.is_infeasible(order):
                return order
            self._known_infeasible += self._size(order)
        return None

    @property
    def _all_known(self) -> bool:
        """Whether the results of all courses returned so far are known."""
        return len(self._learned) == len(self._given)

    @property
    def _infeasible_ranks(self) -> list[int]:
        """Ranks of the courses that turned out to be infeasible."""
        return [rank for rank, each in self._learned.items() if each.infeasible_at is not None]

    def _is_full(self) -> bool:
        """Return whether the courses that have been or are being run reach the limit."""
        return (
            self._limit is not None
            and len(self._given) - len(self._infeasible_ranks) >= self._limit
        )

    def _size(self, order: Sequence[str]) -> int:
        return self._search.classes.size(order, self._together) if self._reduces else 1

    def learn(self, rank: int, learned: CaseLesson) -> None:
        """Record which sessions were blocked at which points, which holds for every order with the same beginning."""
        self._learned.setdefault(rank, learned)
        self._search.learn(self._given[rank], learned)

    @property
    def counts(self) -> CaseCounts:
        """Counts so far; the number left out is final once `next` returns no more courses."""
        orders, unplayable = self._space.count, self._infeasible_ranks
        behaviours = {each.behaviour for each in self._learned.values()} - {""}
        covered = sum(
            self._size(self._given[rank]) for rank in self._given if rank not in unplayable
        )
        infeasible = self._known_infeasible + sum(
            self._size(self._given[rank]) for rank in unplayable
        )
        left_out, why = 0, ""
        if self._is_over and self._all_known and self._sample is None and not self._search.gave_up:
            infeasible = orders - covered
        elif self._is_over or self._is_full():
            left_out = orders - covered - infeasible
            why = self._limit_text() if left_out else ""
        return CaseCounts(
            orders=orders,
            run=len(self._learned) - len(unplayable),
            infeasible=infeasible,
            behaviours=len(behaviours),
            left_out=left_out,
            limit=why,
        )

    def _limit_text(self) -> str:
        if not self._is_over:
            return f"limit {self._limit:,}"
        if self._sample is not None:
            return f"sample {self._sample[0]} seed {self._sample[1]}"
        return f"{LOOK_AT_MAX:,} looked at"


def _mode(
    generate: Generate, seed: int, how: str
) -> tuple[int | None, tuple[int, int] | None, bool]:
    """Return the limit, the sample, and whether only one of equivalent orders is run."""
    if how == "all":
        return None, None, False
    reduces = generate.reduce == "equivalent"
    word, colon, number = how.partition(":")
    if word == "sample" and colon:
        return None, (int(number), seed), reduces
    return generate.limit, generate.sample, reduces


def drawn(count: int, requested: int, seed: int) -> list[int]:
    """Return `requested` different random ranks in ascending order, or all ranks if there are no more than that."""
    if count <= requested:
        return list(range(1, count + 1))
    source = random.Random(seed)
    results: set[int] = set()
    while len(results) < requested:
        results.add(source.randrange(count) + 1)
    return sorted(results)


def space_of(scenario: Scenario, generate: Generate) -> Space:
    """Return the space of orders of the participating sessions under the constraints of `generate`."""
    named = [
        [step for step, _ in session.named_steps]
        for name, session in scenario.sessions.items()
        if not generate.sessions or name in generate.sessions
    ]
    return Space(named, generate.pairs, generate.together)


def items_of(steps: Iterable[str]) -> tuple[OrderItem, ...]:
    """Return steps as the items of an order."""
    return tuple(OrderItem(step=step) for step in steps)
