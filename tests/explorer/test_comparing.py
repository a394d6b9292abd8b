"""Tests of the sentence about a switch's effect: it mentions every difference that a page shows."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.fix_sample import Sample, drawn
from twopc.sim.explore.bases import SwitchError
from twopc.sim.explore.description import content
from twopc.sim.explore.difference import compared
from twopc.sim.explore.plays import play
from twopc.sim.explore.wire.files import WireScenario
from twopc.sim.explore.wire.runs import PlayVariant
from twopc.sim.scenario.check import LoadedScenario, examine_text
from twopc.sim.scenario.stage import SetUpError

SHIPPED = Path(__file__).parents[2] / "scenarios"
LOST = SHIPPED / "immediate/lost_update.twopc.yaml"
NOTHING = "nothing is otherwise"
#: Values that are new in every run, or that repeat which switch is off.
_FRESH = re.compile(
    r"twopc:[\w.]+:\d+:\d+(:[\w/.]+)?|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?(\+\d\d)?"
)
#: Values that can only be changed as a whole.
_WHOLE = (("on",), ("possible",))
_SWITCHES_TOLD = ("Here ", "Played with ")


@cache
def scenario(path: Path) -> tuple[LoadedScenario, WireScenario]:
    """Return a scenario as shipped, and its description."""
    text = path.read_text(encoding="utf-8")
    document, loaded = examine_text(text, str(path))
    described = content(str(path), text, document, loaded)["scenario"]
    assert loaded is not None and described is not None
    return loaded, described


def first(path: Path, **more: Any) -> PlayVariant:
    """Return the first order of a file, with switches and faults."""
    return {"order": scenario(path)[1]["orders"][0]["steps"], **more}  # type: ignore[typeddict-item]


def sentence(path: Path, **more: Any) -> str:
    """Return the sentence about the differences in the first order of a file."""
    loaded, _ = scenario(path)
    was, now = first(path), first(path, **more)
    return compared(play(loaded, was).run, was, play(loaded, now).run, now)


def shown(value: Any) -> Any:
    """Return a value as a page shows it, without times and identifiers."""
    if isinstance(value, dict):
        return {
            _FRESH.sub("…", key): shown(each)
            for key, each in value.items()
            if not key.endswith("_ms")
        }
    if isinstance(value, list):
        kept = [each for each in value if not str(each).startswith(_SWITCHES_TOLD)]
        return [shown(each) for each in kept]
    return _FRESH.sub("…", value) if isinstance(value, str) else value


def _switched() -> Iterator[tuple[Path, str, str]]:
    """Yield every switch of every shipped scenario with each of its other values."""
    for path in sorted(SHIPPED.glob("[!s]*/*.twopc.yaml")):  # stress scenarios have loads
        for each in scenario(path)[1]["switches"]:
            for value in each["values"]:
                if value != each["value"]:
                    yield path, each["name"], value


def test_nothing_is_otherwise_only_where_a_page_shows_the_same(sample: Sample) -> None:
    """For drawn switches, the sentence reports no difference only if the page shows none.

    Each switch is drawn with one of its values, in one of its scenarios.
    """
    said = set()
    for path, name, value in sample(_switched(), 1, by=lambda each: each[1:]):
        loaded, _ = scenario(path)
        was, now = first(path), first(path, switches={name: value})
        try:
            before, after = play(loaded, was).run, play(loaded, now).run
        except (SwitchError, SetUpError):  # the switch is not available here
            continue
        text = compared(before, was, after, now)
        same = shown(before) == shown(after)
        assert (NOTHING in text) == same, f"{path.name}, {name} {value}: {text}"
        said.add(same)
    assert said == {True, False}


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values except times."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()  # fmt: skip
    for key, each in inside:
        if not str(key).endswith("_ms") and (*path, key) not in _WHOLE:
            yield from _leaves(each, (*path, key))
    if value is not None and not isinstance(value, dict | list):
        yield path


def _otherwise(value: Any) -> Any:
    if value in ("ok", "waited", "refused"):  # the state of a card
        return "failed"
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int | float) else f"{value} otherwise"


def test_no_part_of_a_run_can_change_unnoticed() -> None:
    """No change of a single value is reported as no difference."""
    loaded, _ = scenario(LOST)
    was = first(LOST, switches={"protection.version_check": "off"})
    run = play(loaded, was).run
    assert NOTHING in compared(run, was, copy.deepcopy(run), was)
    for leaf in drawn(_leaves(run), 2, "leaves", by=lambda each: (each[0], each[-1])):
        changed = copy.deepcopy(run)
        at: Any = changed
        for key in leaf[:-1]:
            at = at[key]
        at[leaf[-1]] = _otherwise(at[leaf[-1]])
        text = compared(run, was, changed, was)
        assert (NOTHING in text) == (shown(run) == shown(changed)), leaf


def test_rows_and_checks_that_are_not_made_are_told() -> None:
    """Without agents, the sentence names the rows that differ and the checks that are not made."""
    text = sentence(LOST, switches={"agents": "off"})
    assert "converged and echoed are not checked any more" in text
    assert "at sub2 account id=1 ends with balance 100 (before: 90)" in text


@pytest.mark.parametrize(
    "more",
    [
        {"faults": [{"at": "coordinator.decision_logged", "do": "crash coordinator"}]},
        {"switches": {"shipping": "lazy"}},
    ],
)
def test_what_the_file_expects_of_an_order_is_not_held_against_another(more: Any) -> None:
    """A step without an expectation need not be accepted."""
    text = sentence(LOST, **more)
    assert "b_write" in text
    assert "as the file expects" not in text


@pytest.mark.parametrize("off", [{}, {"protection.version_check": "off"}])
def test_a_fault_that_is_not_reached_is_told(off: dict[str, str]) -> None:
    """A fault that is not reached is reported, even with a protection off and no expectations."""
    fault = {"at": "coordinator.decision_logged", "do": "crash coordinator", "nth": 9}
    text = sentence(LOST, faults=[fault], switches=off)
    assert (
        "“crash coordinator” at coordinator.decision_logged never strikes, as the run does not come by there so often"
    ) in text


def test_an_initialisation_that_cannot_be_is_told() -> None:
    """An initialisation that fails is reported, and the play continues.

    Without its customer no purchase can be copied.
    """
    path = SHIPPED / "merge/late_seller.twopc.yaml"
    text = sentence(path, switches={"protection.children_follow": "off"})
    assert "c_begins fails (before: accepted)" in text


def test_the_cause_comes_first() -> None:
    """The cause comes first, then its effects on sessions, checks and rows."""
    assert sentence(LOST, switches={"protection.version_check": "off"}) == (
        "With version check off, b_write waits and is accepted (before: refused); bob is committed instead of"
        " rolled back; no_lost_update catches it, and so does converged; at pub and sub1 account id=1 ends with balance 80"
        " (before: 90)."
    )


def test_what_another_order_brings_about_is_not_put_down_to_a_switch() -> None:
    """If the order was changed too, the differences are not attributed to the switch alone."""
    loaded, _ = scenario(LOST)
    was = first(LOST)
    order = [each for each in was["order"] if each != "a_write"]
    order.insert(order.index("b_write") + 1, "a_write")
    now: PlayVariant = {"order": order, "switches": {"commit": "presumed_commit"}}
    text = compared(play(loaded, was).run, was, play(loaded, now).run, now)
    assert text.startswith("With another order of the steps and commit presumed commit, ")
