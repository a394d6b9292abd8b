"""Tests that the explorer plays every shipped order, map and lesson as `twopc run` does, by name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from twopc.sim.explore import description
from twopc.sim.explore.every_order import play_every
from twopc.sim.explore.export import export
from twopc.sim.explore.lessons.answers import variant
from twopc.sim.explore.lessons.parts import Lesson
from twopc.sim.explore.lessons.source import lessons
from twopc.sim.explore.lessons.wire import lessons_json
from twopc.sim.explore.model_worker import ModelBench
from twopc.sim.explore.plays import OrderPlay, play
from twopc.sim.explore.wire.files import ListedOrder
from twopc.sim.explore.wire.runs import OrdersEvent, PlayVariant, WireBehaviour
from twopc.sim.report.history import History
from twopc.sim.scenario.check import LoadedScenario, examine_text, load
from twopc.sim.scenario.judging import OrderVerdict
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.stage import SetUpError
from twopc.sim.scenario.theatres import played
from twopc.sim.scenario.values import NotPlayableError, Selection

SHIPPED = Path(__file__).parents[2] / "scenarios"
FILES = sorted(SHIPPED.rglob("*.twopc.yaml"))
#: Number of orders of a file that are mapped, and of tiles that are clicked.
MAPPED, CLICKED = 12, 4


@cache
def scenario(path: Path) -> LoadedScenario:
    """Return a scenario as shipped."""
    return load(path)


def listed(loaded: LoadedScenario) -> list[ListedOrder]:
    """Return the orders that the page offers; none for a load."""
    return (
        [] if loaded.scenario.workload is not None else description.scenario(loaded)["orders"]
    )  # fmt: skip


def clicked(loaded: LoadedScenario, order: ListedOrder, **more: Any) -> OrderPlay:
    """Play an order that is chosen by its name, as the page does."""
    chosen: PlayVariant = {"order": order["steps"], "listed": order["name"], **more}  # type: ignore[typeddict-item]
    return play(loaded, chosen)


def judged(loaded: LoadedScenario, selection: Selection) -> dict[str, OrderVerdict]:
    """Return the verdicts of `twopc run` by order; for generated orders that of the first one."""
    verdicts: dict[str, OrderVerdict] = {}

    async def work() -> None:
        async with ModelTheatre() as stages:
            await run(
                loaded,
                stages,
                History(),
                selection=selection,
                listener=lambda case, verdict, _: verdicts.setdefault(case.group, verdict) and None,
            )

    played("model", work())
    return verdicts


def first_of(order: ListedOrder) -> str:
    """Return the name for `--order` of an order, or of the first one that it stands for."""
    title, bracket, cell = order["name"].partition(" [")
    return f"{title} #1{bracket}{cell}" if order["generated"] else order["name"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.partition(".")[0])
def test_an_order_is_what_its_name_says(path: Path) -> None:
    """An order chosen by its name has the faults, isolation level and cell of that name.

    Other orders may have the same steps.
    """
    loaded = scenario(path)
    with contextlib.suppress(SetUpError, NotPlayableError):  # the model lacks something
        for order in listed(loaded):
            done = clicked(loaded, order)
            assert done.chosen.listed == order["name"]
            names = Selection(orders=(first_of(order),), twins=False)
            verdict = judged(loaded, names)[order["name"]]
            assert done.verdict is not None
            came_to = [each.message for each in done.verdict.failures]
            assert (came_to, done.verdict.behaviour) == (
                [each.message for each in verdict.failures],
                verdict.behaviour,
            ), order["name"]


def kinds(loaded: LoadedScenario) -> Iterator[ListedOrder]:
    """Yield one order for each combination of faults and switches."""
    seen = []
    for order in listed(loaded):
        if (kind := (order["faults"], order["switches"])) not in seen:
            seen.append(kind)
            yield order


def tiles(loaded: LoadedScenario, order: ListedOrder) -> list[WireBehaviour]:
    """Return the map of the orders that are made from a chosen one."""
    found: dict[str, WireBehaviour] = {}

    def tell(event: OrdersEvent) -> None:
        if "behaviour" in event:
            found[event["behaviour"]["id"]] = event["behaviour"]

    play_every(loaded, {"listed": order["name"], "limit": MAPPED}, tell, lambda: False)
    return [*found.values()]


@pytest.mark.sample(33)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.partition(".")[0])
def test_a_click_shows_what_the_tile_says(path: Path) -> None:
    """A tile shows the run with the faults, isolation level and expectations of its map's order."""
    loaded = scenario(path)
    with contextlib.suppress(SetUpError, NotPlayableError):
        for order in kinds(loaded):
            for tile in tiles(loaded, order)[:CLICKED]:
                done = play(loaded, {"order": tile["order"], "listed": order["name"]})
                shown = (done.run["outcome"], done.run["behaviour"])
                assert shown == (tile["text"], tile["id"]), (order["name"], tile["order"])


@pytest.mark.parametrize("lesson", lessons(), ids=lambda lesson: lesson.name)
def test_a_question_shows_its_own_run(lesson: Lesson) -> None:
    """The run behind a question is the run that answers it, not another one of the same steps."""
    asked = {each["number"]: each for each in questions(lesson)}
    for question in lesson.questions:
        document, loaded = examine_text(question.text, question.file)
        if loaded is None or document.errors:
            continue  # the lesson reports the error
        part = asked[question.number]
        order = next(
            each for each in listed(loaded) if each["name"] == part["order"] or part["steps"]
        )
        shown = {**order, "name": "", "steps": part["steps"]} if part["steps"] else order
        off = {f"protection.{name}": "off" for name in part["without"]}
        done = clicked(loaded, shown, switches=off)
        answering = judged(variant(lesson, question, None), Selection())
        twin = next((each for name, each in answering.items() if name.startswith("twin of ")), None)
        verdict = twin if off else next(iter(answering.values()))
        assert verdict is not None
        assert done.run["behaviour"] == verdict.behaviour, question.number


def questions(lesson: Lesson) -> Iterator[Any]:
    """Yield the questions as the page has them, including those of exercises."""
    parts = [*next(each["parts"] for each in lessons_json() if each["number"] == lesson.number)]
    while parts:
        part = parts.pop(0)
        parts += part.get("parts", [])
        if part["kind"] == "question":
            yield part


def test_an_export_keeps_what_the_order_has_besides_its_steps() -> None:
    """An exported file has the order's faults and isolation level, and is played as shown."""
    for path in FILES:
        loaded = scenario(path)
        for order in kinds(loaded):
            if not order["switches"]:
                continue
            done = clicked(loaded, order)
            chosen: PlayVariant = {"order": order["steps"], "listed": order["name"]}
            made = export(loaded, chosen, "scenario", order["name"], path.name)
            kept = ModelBench().loaded(path.name, made["text"])
            again = clicked(kept, listed(kept)[0])
            assert again.chosen.case.order.faults == done.chosen.case.order.faults
            shown = [[each["result"] for each in one.run["cards"]] for one in (again, done)]
            assert shown[0] == shown[1], (path.name, order["name"])
