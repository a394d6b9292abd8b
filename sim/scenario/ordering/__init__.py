"""Orders of a scenario's steps to play: the listed ones, or those that fulfil a constraint."""

from __future__ import annotations

from typing import Protocol

from twopc.sim.scenario.model import Order, OrderItem, Scenario
from twopc.sim.scenario.ordering.courses import GeneratedCourses, ListedCourse, RankedCourse
from twopc.sim.scenario.values import CaseCounts, CaseLesson

__all__ = ["Courses", "RankedCourse", "courses"]


class Courses(Protocol):
    """The courses that one order of a file stands for, returned one after the other."""

    def next(self) -> tuple[int, tuple[OrderItem, ...]] | None:
        """Return the next course to play, with its rank, counted from 1; None if there is none at present."""
        ...

    def learn(self, rank: int, learned: CaseLesson) -> None:
        """Record the result of playing the course of a rank, which may make other courses unnecessary."""
        ...

    @property
    def counts(self) -> CaseCounts:
        """Numbers of the courses played, left out and infeasible so far."""
        ...


def courses(scenario: Scenario, order: Order, *, seed: int = 0, how: str = "") -> Courses:
    """Return the courses of an order.

    Args:
        scenario: with the values of its cell.
        order: one of the scenario's orders; a listed one has a single course.
        seed: for `how`; a sample in the file has its own seed.
        how: for a generated order, replaces the file's choice: ``all`` (every order, without reduction or limit) or
            ``sample:N``.
    """
    if order.generate is None:
        return ListedCourse(order.steps)
    return GeneratedCourses(scenario, order, seed, how)
