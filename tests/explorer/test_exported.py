"""Tests that an exported file passes when it is played, and states only what has happened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.explorer.test_comparing import SHIPPED, scenario
from tests.explorer.test_long_tables import TEXT as LONG
from tests.fix_sample import Sample
from twopc.errors import ScenarioError
from twopc.sim.explore.description import content
from twopc.sim.explore.export import export
from twopc.sim.explore.wire.runs import ExportedText, PlayVariant
from twopc.sim.report.history import History
from twopc.sim.scenario.check import examine_text, parse
from twopc.sim.scenario.judging import OrderVerdict
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.run import run
from twopc.sim.scenario.scenario_files import BYTES_MAX
from twopc.sim.scenario.theatres import TheatreOptions, played, theatre

#: A scenario with a row that is in the file twice, and a third time in the expectations.
LONG_ROW = """
twopc: 1
name: long
about: A long text is written again.
topology: {publisher: pub, subscribers: [sub1]}
tables: {place: {columns: {id: int primary key, name: text}, rows: [{id: 1, name: NAME}]}}
sessions:
  alice:
    node: pub
    steps: [a_write: {sql: "update place set name = 'NAME' where id = 1"}]
orders: [{name: one, steps: [a_write]}]
"""
TEMPLATE = SHIPPED.parent / "sim/explore/templates/two_writers.twopc.yaml"


def off(*names: str) -> dict[str, str]:
    """Return switches that turn protections off."""
    return {f"protection.{name}": "off" for name in names}


def exported(
    path: Path, order: str, kind: str = "scenario", *, text: str = "", **switches: str
) -> ExportedText:
    """Export a listed order of a file with these switches, or of the file with another text."""
    text = text or path.read_text(encoding="utf-8")
    document, loaded = examine_text(text, path.name)
    described = content(path.name, text, document, loaded)["scenario"]
    assert loaded is not None and described is not None
    (steps,) = (each["steps"] for each in described["orders"] if each["name"] == order)
    variant: PlayVariant = {"order": steps, "listed": order, "switches": switches}
    return export(loaded, variant, kind, "kept", path.name)


def failures(made: ExportedText) -> list[str]:
    """Return the failures of an export when it is run on the model as `twopc run` does."""
    loaded = parse(made["text"], made["filename"])
    results: list[str] = []

    async def play() -> None:
        async with theatre("model", TheatreOptions()) as stage:
            await run(loaded, stage, History(), listener=lambda case, verdict, _: heard(verdict))

    def heard(verdict: OrderVerdict) -> None:
        results.extend(each.message for each in verdict.failures)

    played("model", play())
    return results


def kept(made: ExportedText) -> Scenario:
    """Return the scenario that was exported."""
    return parse(made["text"]).scenario


def _listed() -> Iterator[tuple[Path, str, tuple[str, ...]]]:
    """Yield every listed order shipped, as it is, and without the protections of each twin."""
    for path in sorted(SHIPPED.glob("[!s]*/*.twopc.yaml")):  # stress scenarios have loads
        loaded, described = scenario(path)
        for order in described["orders"]:
            if order["steps"]:
                yield path, order["name"], ()
                for twin in loaded.scenario.twins:
                    yield path, order["name"], (*twin.off,)


def test_every_listed_order_is_exported_and_passes(sample: Sample) -> None:
    for path, order, names in sample(_listed(), 1, by=lambda each: each[0].parent):
        made = exported(path, order, **off(*names))
        assert failures(made) == [], f"{path.name}, {order}, without {names}"


@pytest.mark.parametrize(
    ("file", "order", "name"),
    [
        ("immediate/lost_update", "alice changes her mind", "version_check"),
        ("commit/operator_guesses", "the wrong guess", "missing_looked_up"),
        ("merge/additive_stock", "both sell", "resolver"),
    ],
)
def test_a_protection_that_breaks_nothing_leaves_no_twin(file: str, order: str, name: str) -> None:
    """An export has no twin if switching off a protection breaks no check that holds with it.

    The order is exported with every protection, and the file says so.
    """
    made = exported(SHIPPED / f"{file}.twopc.yaml", order, **off(name))
    assert failures(made) == []
    assert kept(made).twins == ()
    (remark,) = made["remarks"]
    assert remark == (
        "No twin, and the order as it is with every protection: "
        f"Without {name.replace('_', ' ')} nothing is broken that holds with it."
    )
    assert made["text"].startswith(f"# {remark}\n")


def test_a_sum_that_does_not_hold_is_left_out() -> None:
    """A sum that does not hold is left out: no truth value can express it."""
    made = exported(SHIPPED / "immediate/write_skew.twopc.yaml", "at the same time")
    assert failures(made) == []
    assert "Not expected: sum: doctor.on_call at pub adds up to 0, not 1." in made["remarks"]
    assert kept(made).expect.sum == ()


def test_a_long_table_that_is_not_expected_is_named() -> None:
    made = exported(Path("many.twopc.yaml"), "at once", text=LONG)
    assert made["remarks"] == ["Not expected, because there are over 20 rows: account."]
    assert failures(made) == []


def test_any_client_is_written_of_sessions_that_can_be_so() -> None:
    """An export has any client only in sessions that change rows; one that reads is coordinated."""
    path = SHIPPED / "proc_execution/mixed_subscribers.twopc.yaml"
    made = exported(path, "a call and its rows", any_client="on")
    ways = {name: each.way for name, each in kept(made).sessions.items()}
    assert ways == {"office": "coordinated", "a": "coordinated", "b": "any client"}


def test_a_page_says_what_is_not_as_the_file_expects() -> None:
    text = TEMPLATE.read_text(encoding="utf-8").replace(
        "orders:",
        "orders:\n  - name: wrong\n    steps: [b_begin, b_write, b_end, a_begin, a_write, a_end]\n"
        "    expect: {sessions: {bob: rolled back}}",
        1,
    )
    page = exported(TEMPLATE, "wrong", "html", text=text)["text"]
    assert "bob: expected rolled back, got committed" in page
    assert "✓ passed" not in page


def moved(path: Path, step: str, before: str, *, text: str = "") -> ExportedText:
    """Export the first order of a file with a step moved before another."""
    text = text or path.read_text(encoding="utf-8")
    loaded = parse(text, path.name)
    order = [str(each.step) for each in loaded.scenario.orders[0].steps if each.step != step]
    order.insert(order.index(before), step)
    return export(loaded, {"order": order, "listed": ""}, "scenario", "kept", path.name)


def test_a_step_that_looks_expects_what_it_has_seen() -> None:
    """In another order, a step that reads expects the rows that it has read."""
    path = SHIPPED / "transactional/two_unique_keys.twopc.yaml"
    made = moved(path, "o_both", "s_look")
    assert failures(made) == []
    assert "rows: [{id: 7, card: B}]}\n" in made["text"]
    assert made["remarks"] == [
        "Otherwise than in the file: s_look: expected rows {id: 7, card: X}, {id: 8, card: B}, got {id: 7, card: B}."
    ]


def test_what_a_step_has_seen_of_the_clock_is_not_expected() -> None:
    path = SHIPPED / "transactional/two_unique_keys.twopc.yaml"
    text = path.read_text(encoding="utf-8").replace(
        "select id, card from", "select id, now() as card from"
    )
    with pytest.raises(ScenarioError, match="no file can expect what is shown: s_look"):
        moved(path, "o_both", "s_look", text=text)


def test_no_text_is_exported_that_is_too_long_to_be_read() -> None:
    """An export that is too long to be read again is refused, if only its expectations make it so long."""
    name = "x" * (BYTES_MAX // 3)
    text = LONG_ROW.replace("NAME", name)
    with pytest.raises(ScenarioError, match=f"over {BYTES_MAX} bytes, which no scenario has"):
        exported(Path("long.twopc.yaml"), "one", text=text)
