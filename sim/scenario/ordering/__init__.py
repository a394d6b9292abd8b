"""Which orders of a scenario's steps are played: the listed ones, or those that a constraint leaves."""

from __future__ import annotations

from typing import Protocol

from twopc.sim.scenario.model import Order, OrderItem, Scenario
from twopc.sim.scenario.ordering.courses import GeneratedCourses, ListedCourse, RankedCourse
from twopc.sim.scenario.values import CaseCounts, CaseLesson

__all__ = ["Courses", "courses", "listed", "single"]


class Courses(Protocol):
    """The courses that one order of a file stands for, told one after the other."""

    def next(self) -> tuple[int, tuple[OrderItem, ...]] | None:
        """The next one to play, with its rank from 1; None: there is nothing (more) to play now."""
        ...

    def learn(self, rank: int, learned: CaseLesson) -> None:
        """What playing it has shown, which may spare others."""
        ...

    @property
    def counts(self) -> CaseCounts:
        """How far it is."""
        ...


def courses(scenario: Scenario, order: Order, *, seed: int = 0, how: str = "") -> Courses:
    """The courses of an order.

    Args:
        scenario: with the values of its cell.
        order: one of its orders; a listed one is a single course.
        seed: for `how`; a sample that the file asks for has its own.
        how: of a generated order, instead of what the file says: ``all`` (each, nothing is reduced or
            left out) or ``sample:N``.
    """
    return listed(order) if order.generate is None else GeneratedCourses(scenario, order, seed, how)


def listed(order: Order) -> Courses:
    """The one course of an order that lists its steps."""
    return ListedCourse(order.steps)


def single(scenario: Scenario, order: Order, rank: int) -> Courses:
    """One course of a generated order.

    Raises:
        IndexError: it has not so many.
    """
    return RankedCourse(scenario, order, rank)
