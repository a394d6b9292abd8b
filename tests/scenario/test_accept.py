"""Tests of accepting an outcome: the text is changed where necessary, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from twopc.errors import ScenarioError
from twopc.sim.scenario import text
from twopc.sim.scenario.accept import accepted, flow, refusals, with_order
from twopc.sim.scenario.check import load, parse
from twopc.sim.scenario.judging import FailedCheck
from twopc.sim.scenario.text import Document

SHIPPED = sorted(
    path
    for path in (Path(__file__).parents[2] / "scenarios").rglob("*.twopc.yaml")
    if path.parent.name != "stress"  # a load has no steps
)

#: A file with comments everywhere, and with every notation of a mapping or a list.
SOURCE = """\
twopc: 1   # the format
name: x    # a name
about: x
topology: {publisher: pub, subscribers: [sub1, sub2]}
tables: {t: {columns: {id: int primary key, v: int}, rows: [{id: 1, v: 0}]}}
sessions:
  a:
    node: sub1
    steps:
      - a1: begin
      - a2: {sql: "update t set v = 1 where id = 1"}
      - a3: commit
  b:
    node: sub2
    steps:
      - b1: begin
      - b2: {sql: "update t set v = 2 where id = 1"}
      - b3: commit
orders:
  # the first one
  - name: first
    steps: [a1, a2, b1, b2, a3, b3]
    expect:  # of the first one
      # of its steps
      steps:
        a2: ok  # he is first
        b2:  # she waits
          blocked_by: a2  # for him
          then: {rejected: version_mismatch}  # and is refused
      sessions: {a: committed, b: rolled back}  # him only
      tables:
        t:
          everywhere:
            - {id: 1, v: 1}  # his
            # no more
  # the second one
  - {name: second, steps: [b1, b2, b3], expect: {sessions: {b: committed}}}  # she alone
  - name: third  # without expectations
    steps: [a1, a2, a3]
    # the end
"""


def document(source: str = SOURCE) -> Document:
    """Return the file, parsed and checked."""
    return parse(source, "x.twopc.yaml").document


def failure(check: str, actual: object, *path: str | int, kind: str = "safety") -> FailedCheck:
    """Return a failed check, as a judge reports it."""
    return FailedCheck(
        path=path, message=f"{check} is not so", kind=kind, check=check, actual=actual
    )


def changed(after: str, before: str = SOURCE) -> list[tuple[str, str]]:
    """Return the lines that differ between two texts of the same number of lines."""
    pairs = list(zip(before.splitlines(), after.splitlines(), strict=True))
    return [(old.strip(), new.strip()) for old, new in pairs if old != new]


FIRST = ("orders", 0, "expect")


@pytest.mark.parametrize(
    ("happened", "old", "new"),
    [
        (
            failure("steps.a2", {"rejected": "row_missing"}, *FIRST, "steps", "a2"),
            "a2: ok  # he is first",
            "a2: {rejected: row_missing}  # he is first",
        ),
        (
            failure("steps.b2", "ok", *FIRST, "steps", "b2", "then"),
            "then: {rejected: version_mismatch}  # and is refused",
            "then: ok  # and is refused",
        ),
        (
            failure("steps.b2", {"error": "08001"}, *FIRST, "steps", "b2", "then"),
            "then: {rejected: version_mismatch}  # and is refused",
            "then: {error: 08001}  # and is refused",
        ),
        (
            failure("sessions.b", "committed", *FIRST, "sessions", "b"),
            "sessions: {a: committed, b: rolled back}  # him only",
            "sessions: {a: committed, b: committed}  # him only",
        ),
        (
            failure(
                "tables.t", [{"id": "1", "v": "7"}], *FIRST, "tables", "t", "everywhere"
            ),
            "- {id: 1, v: 1}  # his",
            "- {id: 1, v: 7}  # his",
        ),
        (
            failure("sessions.b", "rolled back", "orders", 1, "expect", "sessions", "b"),
            "- {name: second, steps: [b1, b2, b3], expect: {sessions: {b: committed}}}  # she alone",
            "- {name: second, steps: [b1, b2, b3], expect: {sessions: {b: rolled back}}}  # she alone",
        ),
        (
            failure("steps.b2", "in_doubt", "orders", 1, "expect", "steps", "b2"),
            "- {name: second, steps: [b1, b2, b3], expect: {sessions: {b: committed}}}  # she alone",
            "- {name: second, steps: [b1, b2, b3], expect: {sessions: {b: committed}, "
            "steps: {b2: in_doubt}}}  # she alone",
        ),
    ],
    ids=lambda value: getattr(value, "check", ""),
)  # fmt: skip
def test_one_line(happened, old, new):
    """Only the value that differs is rewritten; everything around it, comments too, is kept."""
    after = accepted(document(), [happened])
    assert changed(after) == [(old, new)]
    assert parse(after)
    assert accepted(document(after), [happened]) == after


def test_what_was_expected_already():
    same = [
        failure("steps.a2", "ok", *FIRST, "steps", "a2"),
        failure("tables.t", [{"id": 1, "v": 1}], *FIRST, "tables", "t", "everywhere"),
    ]
    assert accepted(document(), same) == SOURCE


def test_rows_that_come_and_go():
    """A list in block notation keeps its notation if rows are added or removed."""
    path = (*FIRST, "tables", "t", "everywhere")
    more = failure("tables.t", [{"id": 1, "v": 1}, {"id": 2, "v": None}], *path)
    after = accepted(document(), [more])
    assert "            - {id: 1, v: 1}\n            - {id: 2, v: null}  # his\n" in after
    assert parse(after)
    assert accepted(document(after), [more]) == after
    none = accepted(document(), [failure("tables.t", [], *path)])
    assert parse(none).scenario.orders[0].expect.tables["t"]["everywhere"].rows == ()
    assert "            # no more\n" in none


def test_keys_that_are_missing():
    """Missing keys are added at the end of their mapping, in the mapping's notation."""
    happened = [
        failure("steps.b3", "rolled back", *FIRST, "steps", "b3"),
        failure("steps.a3", "in_doubt", *FIRST, "steps", "a3"),
    ]
    after = accepted(document(), happened)
    assert (
        "          then: {rejected: version_mismatch}  # and is refused\n"
        "        b3: rolled back\n"
        "        a3: in_doubt\n"
        "      sessions:"
    ) in after
    assert after.replace("        b3: rolled back\n        a3: in_doubt\n", "") == SOURCE
    assert accepted(document(after), happened) == after


def test_an_order_without_expectations():
    """An order without expectations gets them below its keys, with the same indentation.

    The path of a failure may lead to a step of the order.
    """
    happened = [
        failure("steps.a2", {"rejected": "row_missing"}, "orders", 2, "steps", 1),
        failure("sessions.a", "rolled back", "orders", 2, "expect", "sessions", "a"),
    ]
    after = accepted(document(), happened)
    assert (
        "    steps: [a1, a2, a3]\n"
        "    expect:\n"
        "      steps: {a2: {rejected: row_missing}}\n"
        "      sessions: {a: rolled back}\n"
        "    # the end\n"
    ) in after
    assert len(after.splitlines()) == len(SOURCE.splitlines()) + 3
    assert parse(after).scenario.orders[2].expect.sessions == {"a": "rolled back"}
    assert accepted(document(after), happened) == after


def test_empty_expectations():
    line = "    expect: {}  # none\n"
    source = SOURCE.replace("    steps: [a1, a2, a3]\n", f"    steps: [a1, a2, a3]\n{line}")
    happened = failure("sessions.a", "rolled back", "orders", 2, "expect", "sessions", "a")
    after = accepted(document(source), [happened])
    assert "    expect: {sessions: {a: rolled back}}  # none\n" in after
    assert parse(after).scenario.orders[2].expect.sessions == {"a": "rolled back"}
    assert len(after.splitlines()) == len(source.splitlines())
    assert accepted(document(after), [happened]) == after


def test_nodes_that_differ():
    """A mapping that spans several lines still does after its keys were replaced."""
    rows = {"pub": [{"id": 1, "v": 1}], "sub1": [{"id": 1, "v": 1}], "sub2": []}
    happened = failure("tables.t", rows, *FIRST, "tables", "t")
    after = accepted(document(), [happened])
    assert (
        "        t:\n"
        "          pub: [{id: 1, v: 1}]\n"
        "          sub1: [{id: 1, v: 1}]\n"
        "          sub2: []  # his\n"
    ) in after
    assert accepted(document(after), [happened]) == after


def test_a_mapping_becomes_a_word():
    happened = failure("steps.b2", "ok", *FIRST, "steps", "b2")
    after = accepted(document(), [happened])
    assert "        b2: ok  # she waits  # and is refused\n" in after
    assert accepted(document(after), [happened]) == after


def test_long_rows_are_broken():
    rows = [{"id": n, "v": "a text of some length"} for n in range(5)]
    happened = failure("tables.t", rows, "orders", 1, "expect", "tables", "t", "pub")
    after = accepted(document(), [happened])
    assert parse(after).scenario.orders[1].expect.tables["t"]["pub"].rows is not None


def test_a_file_without_an_end_of_line():
    happened = failure("sessions.a", "rolled back", "orders", 2, "expect", "sessions", "a")
    source = SOURCE.replace("    # the end\n", "").rstrip()
    after = accepted(document(source), [happened])
    assert after == source + "\n    expect: {sessions: {a: rolled back}}"


@pytest.mark.parametrize(
    ("check", "path", "kind", "why"),
    [
        *(
            (name, ("expect", name), "safety", "must hold whatever happens")
            for name in (
                "atomic", "prepared_left", "versions_move_forward", "converged", "echoed",
                "no_lost_update", "sum", "each_change_applied_once", "sql",
            )
        ),
        ("twin", ("twin", "must_fail"), "safety", "a twin says which check must fail"),
        ("steps.a2", ("twin", "expect", "steps", "a2"), "safety", "a twin says"),
        ("committed", ("orders", 0, "expect", "committed"), "safety", "counts over many orders"),
        ("rejected.deadlock", ("orders", 0, "expect"), "safety", "counts over many orders"),
        ("steps.a2", FIRST, "liveness", "something hangs"),
        ("steps.a2", FIRST, "unknown", "something is in doubt"),
    ],
)  # fmt: skip
def test_what_is_never_accepted(check, path, kind, why):
    wrong = failure(check, "x", *path, kind=kind)
    right = failure("steps.a2", "in_doubt", *FIRST, "steps", "a2")
    assert [why in each for each in refusals([wrong, right])] == [True]
    with pytest.raises(ScenarioError, match=why):
        accepted(document(), [right, wrong])


def test_what_cannot_be_written():
    with pytest.raises(ScenarioError, match="cannot be written as an expectation"):
        accepted(document(), [failure("steps.a2", None, *FIRST, "steps", "a2")])


def test_what_came_out_in_several_ways():
    """An expectation with several outcomes, as of a file or a generated order, is not accepted."""
    two = [
        failure("steps.a2", actual, *FIRST, "steps", "a2") for actual in ("in_doubt", "rolled back")
    ]
    with pytest.raises(ScenarioError, match="came out in several ways"):
        accepted(document(), two)
    assert accepted(document(), [two[0], two[0]])


def test_what_stands_there_by_an_alias():
    source = SOURCE.replace(
        "sessions: {a: committed, b: rolled back}", "sessions: &his {a: committed, b: rolled back}"
    ).replace("expect: {sessions: {b: committed}}", "expect: {sessions: *his}")
    happened = failure("sessions.b", "committed", "orders", 1, "expect", "sessions", "b")
    with pytest.raises(ScenarioError, match="by an alias; write it out"):
        accepted(document(source), [happened])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_scenario(path):
    """Other outcomes can be accepted in every shipped scenario; a second time nothing changes."""
    loaded = load(path)
    happened = [
        failure(
            f"steps.{item.step}", {"error": "22012"}, "orders", at, "expect", "steps", item.step
        )
        for at, order in enumerate(loaded.scenario.orders)
        for item in order.steps
        if item.step is not None
    ]
    after = accepted(loaded.document, happened)
    again = text.parse(after, str(path))
    assert again.problems == []
    assert again.root is not None
    said = [order["expect"]["steps"] for order in again.root["orders"] if "generate" not in order]
    steps = [each for order in said for each in order.values()]
    assert len(steps) >= len(happened)
    assert {"error": "22012"} in steps
    assert accepted(again, happened) == after
    assert [line for line in after.splitlines() if line.lstrip().startswith("#")] == [
        line for line in loaded.document.text.splitlines() if line.lstrip().startswith("#")
    ]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("rolled back", "rolled back"),
        ("null", '"null"'),
        (None, "null"),
        ("", '""'),
        (True, "true"),
        ("-10", "-10"),
        ("- x", '"- x"'),
        ("08001", "08001"),
        ("a, b", '"a, b"'),
        ("a: b", '"a: b"'),
        ("#x", '"#x"'),
        ("2026-01-15 10:15:00+00", '"2026-01-15 10:15:00+00"'),
        ("ä\n", '"ä\\n"'),
        ({"rows": [{"a b": "1"}, {}]}, "{rows: [{a b: 1}, {}]}"),
    ],
)
def test_values_as_yaml(value, written):
    assert flow(value) == written


def test_one_more_order():
    after = with_order(document(), "as walked", ["a1", "a2", "{rollback: a}"])
    added = "  - name: as walked\n    steps: [a1, a2, {rollback: a}]\n"
    assert after == SOURCE.replace("    # the end\n", added + "    # the end\n")
    again = with_order(document(after), "as walked", ["b1", "b3"])
    assert [order.name for order in parse(again).scenario.orders][3:] == [
        "as walked",
        "as walked 2",
    ]


def test_one_more_order_in_brackets():
    source = SOURCE[: SOURCE.index("orders:")] + "orders: [{name: first, steps: [a1, a3]}]  # all\n"
    after = with_order(document(source), "x: y", ["b1", "b3"])
    assert after.endswith(
        'orders: [{name: first, steps: [a1, a3]}, {name: "x: y", steps: [b1, b3]}]  # all\n'
    )
    assert parse(after).scenario.orders[1].name == "x: y"


def test_orders_of_another_file(tmp_path):
    (tmp_path / "base.twopc.yaml").write_text(SOURCE, encoding="utf-8")
    inner = tmp_path / "inner.twopc.yaml"
    inner.write_text("extends: base.twopc.yaml\ntwopc: 1\nname: y\nabout: y\n", encoding="utf-8")
    with pytest.raises(ScenarioError, match="do not stand in it"):
        with_order(load(inner).document, "as walked", ["a1"])
    happened = failure("steps.a2", "in_doubt", *FIRST, "steps", "a2")
    with pytest.raises(ScenarioError, match=r"it is expected in .*base.twopc.yaml, which other"):
        accepted(load(inner).document, [happened])
