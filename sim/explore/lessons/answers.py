"""Answers to a lesson's questions: the order is played, and the run determines the answer.

Each choice is an expectation as in a scenario, and is judged as one; reasons are those of reports.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twopc.errors import ScenarioError
from twopc.sim.checkers import CHECKS
from twopc.sim.explore.lessons.parts import Lesson, LessonChoice, LessonQuestion, LessonValue
from twopc.sim.report.causes import because_of
from twopc.sim.report.events import StepEnd
from twopc.sim.report.fold import Fold
from twopc.sim.report.history import History, HistoryRecord
from twopc.sim.scenario import text
from twopc.sim.scenario.check import LoadedScenario, from_document
from twopc.sim.scenario.expectations import DEFAULTS
from twopc.sim.scenario.judging import FailedCheck, OrderVerdict, judge
from twopc.sim.scenario.judging.compare import holder
from twopc.sim.scenario.judging.runs import Runs
from twopc.sim.scenario.run import run
from twopc.sim.scenario.stage import Theatre
from twopc.sim.scenario.text import Document, Map, Mark
from twopc.sim.scenario.text import Sequence as MarkedList
from twopc.sim.scenario.theatres import TheatreOptions, played, theatre
from twopc.sim.scenario.values import Case, Selection

#: Name of an order that a question lists and its file does not have.
ASKED = "as asked"
#: Value of `fails`: no invariant fails.
NOTHING = "nothing"
#: Keys of an expectation with one check for each name below.
_FAMILIES = ("steps", "sessions", "tables", "rejected")
#: Keys of a file that describe outcomes rather than actions.
_OUTCOMES = ("expect", "twin", "orders")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceOutcome:
    """Result of judging one choice by the run."""

    holds: bool
    message: str = ""
    """The actual outcome if the choice is wrong: ``b_write: expected ok, got rejected: version_mismatch``."""
    because: str = ""
    however: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LessonAnswer:
    """Answer to a question, from the run."""

    choices: tuple[ChoiceOutcome, ...]
    """Outcomes in the sequence of the question's choices."""
    value: str | None
    """The value that the question asks for; None for a question with choices."""
    because: str
    """The reason, in the words of a report; empty if there is none."""
    however: str

    @property
    def right(self) -> int | None:
        """Number of the right choice, from 0; None for a question that asks for a value."""
        return next((at for at, each in enumerate(self.choices) if each.holds), None)


def answer(lesson: Lesson, question: LessonQuestion) -> LessonAnswer:
    """Play the question's order on the model, and read the answer from the run.

    Must not be called on a running event loop.

    Raises:
        ScenarioError: the question cannot be played, or has no right choice or several; the message has its place.
    """

    async def work() -> LessonAnswer:
        async with theatre("model", TheatreOptions()) as stages:
            return await answered(lesson, question, stages)

    return played("model", work())


async def answered(lesson: Lesson, question: LessonQuestion, stages: Theatre) -> LessonAnswer:
    """Answer a question as `answer` does, in a theatre that is open already."""
    courses: list[tuple[Case, Sequence[HistoryRecord]]] = []

    def keep(case: Case, _: OrderVerdict, records: Sequence[HistoryRecord]) -> None:
        courses.append((case, records))

    loaded = variant(lesson, question, None)
    await run(
        loaded, stages, History(), selection=Selection(orders=(_group(question),)), listener=keep
    )
    if not courses:
        raise _mistake(lesson, question.mark, f"no order '{question.order}' can be played")
    if question.value is not None:
        return _of_value(lesson, question, question.value, courses[0][1])
    outcomes = tuple(_outcome(lesson, question, each, courses) for each in question.choices)
    right = [
        each.text for each, outcome in zip(question.choices, outcomes, strict=True) if outcome.holds
    ]
    if len(right) != 1:
        what = f"several choices are right: {text.listed(right)}" if right else "no choice is right"
        lines = [each.message for each in outcomes if each.message]
        raise _mistake(lesson, question.mark, "; ".join((what, *lines)))
    because, however = next(
        ((each.because, each.however) for each in outcomes if each.because or each.however),
        ("", ""),
    )
    return LessonAnswer(choices=outcomes, value=None, because=because, however=however)


def _group(question: LessonQuestion) -> str:
    name = question.order or ASKED
    if not question.without:
        return name
    return f"twin of {name}: {' and '.join(sorted(question.without))} off"


def _mistake(lesson: Lesson, mark: Mark, message: str) -> ScenarioError:
    document = Document(path=lesson.path, lines=[*lesson.lines])
    document.error(Mark(mark.line, mark.column), message)
    return ScenarioError(document.report())


# -- what is played and judged -----------------------------------------------------------------------


def variant(
    lesson: Lesson, question: LessonQuestion, choice: LessonChoice | None
) -> LoadedScenario:
    """Return the question's file with its one order, and with the choice as the order's expectation.

    Raises:
        ScenarioError: the file or the choice cannot be played; an error in the choice is reported at its place in
            the lesson.
    """
    try:
        return _variant(lesson, question, choice)
    except ScenarioError as error:
        if str(error).startswith(f"{lesson.path}:"):
            raise
        at = question.mark
        raise ScenarioError(
            f"{lesson.path}:{at.line}:{at.column}: error: {question.file} cannot be played:\n{error}"
        ) from error


def _variant(
    lesson: Lesson, question: LessonQuestion, choice: LessonChoice | None
) -> LoadedScenario:
    document = text.parse(question.text, question.file)
    document.sources[lesson.path] = [*lesson.lines]
    root = document.root
    document.raise_errors()
    assert root is not None, "a document without errors has values"
    at = question.mark
    order = _order(lesson, question, root)
    whole = Map(root.mark)
    for key in root:
        if key not in _OUTCOMES:
            whole.take(key, root[key], root)
    _put(order, "expect", _expected(choice), at if choice is None else choice.mark)
    orders = MarkedList(order.mark)
    orders.append(order)
    orders.items_at.append(order.mark)
    orders.spans.append(None)
    _put(whole, "orders", orders, order.mark)
    if question.without:
        off = Map(at)
        for name in question.without:
            _put(off, name, "off", at)
        twin = Map(at)
        _put(twin, "protections", off, at)
        _put(
            twin, "must_fail", "converged", at
        )  # a twin must name an invariant; the run shows which ones fail
        _put(whole, "twin", twin, at)
    document.root = whole
    return from_document(document)


def _order(lesson: Lesson, question: LessonQuestion, root: Map) -> Map:
    """Return the order to be played, without its expectations."""
    result = Map(question.mark)
    if question.items:
        _put(result, "name", ASKED, question.mark)
        _put(result, "steps", question.items, question.mark)
        return result
    for each in root.get("orders", ()):
        if each.get("name") == question.order:
            for key in each:
                if key != "expect":
                    result.take(key, each[key], each)
            return result
    raise _mistake(lesson, question.mark, f"{question.file} has no order '{question.order}'")


def _put(values: Map, key: str, value: Any, mark: Mark) -> None:
    values[key] = value
    values.keys_at[key] = values.values_at[key] = mark


def _expected(choice: LessonChoice | None) -> Map:
    """Return the expectation, as in a file, that the order meets if the choice is right."""
    if choice is None:
        return Map(Mark(1, 1))
    if not choice.fails:
        return choice.expect
    result = Map(choice.mark)
    if choice.fails not in (*DEFAULTS, NOTHING):
        _put(result, choice.fails, True, choice.mark)  # only judged if the file asks for it
    return result


# -- what the run says -------------------------------------------------------------------------------


def _outcome(
    lesson: Lesson,
    question: LessonQuestion,
    choice: LessonChoice,
    courses: Sequence[tuple[Case, Sequence[HistoryRecord]]],
) -> ChoiceOutcome:
    """Judge one choice by all courses of the order: it must hold in each, or in some and not in all."""
    scenario = variant(lesson, question, choice).scenario
    results = []
    for case, records in courses:
        judged = dataclasses.replace(
            case, scenario=scenario, order=scenario.orders[0], at=("orders", 0), twin=None
        )
        failures = [each for each in judge(judged, records).failures if _is_asked(choice, each)]
        failures += _waits(question, choice, Runs(records))
        results.append((failures, records))
    wrong = [(failures[0], records) for failures, records in results if failures]
    if choice.fails and choice.fails != NOTHING:
        holds = bool(wrong)
        message = "" if holds else f"{choice.fails} holds"
    else:
        holds = len(wrong) < len(results) if choice.sometimes else not wrong
        if choice.sometimes and not wrong:
            holds = False
        message = "" if holds else wrong[0][0].message if wrong else "it is so in every order"
    because, however = _reasons(*wrong[0]) if wrong and not choice.sometimes else ("", "")
    return ChoiceOutcome(holds=holds, message=message, because=because, however=however)


def _is_asked(choice: LessonChoice, failure: FailedCheck) -> bool:
    if choice.fails:
        return failure.check in CHECKS if choice.fails == NOTHING else failure.check == choice.fails
    return failure.check in set(_checks(choice.expect))


def _checks(expect: Mapping[str, Any]) -> Iterator[str]:
    for key, value in expect.items():
        if key in _FAMILIES and isinstance(value, Mapping):
            yield from (f"{key}.{name}" for name in value)
        else:
            yield key


def _waits(question: LessonQuestion, choice: LessonChoice, runs: Runs) -> Iterator[FailedCheck]:
    """Yield failures for steps that waited although the choice, unlike another one, names no holder."""
    waiting = {name for each in question.choices for name in _blocked(each)}
    for name in choice.expect.get("steps", ()):
        blocked = runs.of(name).blocked
        if name in waiting - _blocked(choice) and blocked:
            yield FailedCheck(
                path=(),
                message=f"{name}: expected no wait, got blocked by {holder(blocked[0])}",
                check=f"steps.{name}",
            )


def _blocked(choice: LessonChoice) -> set[str]:
    """Return the steps for which a choice names a holder."""
    steps = choice.expect.get("steps")
    if not isinstance(steps, Map):
        return set()
    return {name for name, each in steps.items() if isinstance(each, Map) and "blocked_by" in each}


def _reasons(failure: FailedCheck, records: Sequence[HistoryRecord]) -> tuple[str, str]:
    facts = {
        "check": failure.check,
        "message": failure.message,
        "expected": failure.expected_text,
        "actual": failure.actual_text,
    }
    return because_of(Fold(records), facts)


def _of_value(
    lesson: Lesson,
    question: LessonQuestion,
    value: LessonValue,
    records: Sequence[HistoryRecord],
) -> LessonAnswer:
    fold = Fold(records)
    if value.step:
        rows = [
            row
            for each in fold.of(StepEnd)
            if each.step == value.step
            for row in (each.rows or ())[:1]
        ]
        check = f"steps.{value.step}"
    else:
        rows = [
            row
            for each in fold.looks("final")
            if each.node == value.at and each.table == value.table
            for row in each.rows
            if all(str(row.get(column)) == cell for column, cell in value.row)
        ]
        check = f"tables.{value.table}"
    if len(rows) != 1 or value.column not in rows[0]:
        raise _mistake(
            lesson, question.mark, f"the run has {len(rows)} such rows with '{value.column}'"
        )
    because, however = because_of(fold, {"check": check, "message": ""})
    shown = rows[0][value.column]
    return LessonAnswer(
        choices=(), value="null" if shown is None else str(shown), because=because, however=however
    )
