"""Tests of orders that are reported as groups: generated orders, cells, twins and repeats."""

from __future__ import annotations

import dataclasses
import json
from xml.etree import ElementTree

import pytest

from tests.json_schema import problems
from tests.report.recorded import NAMES, played_again, records, several
from tests.report.test_schema import SCHEMA_FILE
from twopc.sim.report.forms import as_mermaid, final_states, first_diagram
from twopc.sim.report.groups import GroupCounts, counts_text, groups
from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.html import page
from twopc.sim.report.junit import junit
from twopc.sim.report.verdict import verdict

#: Histories with groups.
NEWER = ("cells", "every_order", "outage", "wrong_counts")


def test_a_run_with_every_kind_of_order() -> None:
    every = {group.name: group for group in groups(several())}
    assert {name: len(group.orders) for name, group in every.items()} == {
        "alice first": 1,
        "every order": 4,
        "winner [serializable]": 1,
        "again": 2,
        "twin of alice first": 1,
    }
    assert {name: group.text() for name, group in every.items()} == {
        "alice first": "b_write waited for a_write, rejected: version_mismatch",
        "every order": "24 of 36 feasible, 3 behaviours (run: 4)",
        "winner [serializable]": "b_write waited for a_write",
        "again": "2 times alike; b_write waited for a_write",
        "twin of alice first": "without version_check no_lost_update fails, as it must",
    }
    assert every["twin of alice first"].twin["protections"] == ["version_check"]
    assert every["winner [serializable]"].cell == {"isolation.pub": "serializable"}
    assert not any(group.kind for group in every.values())


def test_one_of_each_behaviour_is_drawn() -> None:
    group = next(group for group in groups(several()) if group.name == "every order")
    assert [group.label(order) for order in group.drawn] == [
        "every order #1, and 1 like it",
        "every order #4",
        "every order #9",
    ]


def test_what_went_wrong_is_drawn_first() -> None:
    """An order that failed is drawn first, before others of the same behaviour."""
    (group,) = groups([*played_again("lost_update", 3), *_failed("every order #4")])
    assert group.drawn[0].name == "every order #4"
    assert group.kind == "safety"


def _failed(name: str) -> list[HistoryRecord]:
    failure = {"message": "wrong", "kind": "safety", "line": 1, "column": 1}
    judged = {"name": name, "verdict": "fail", "kind": "safety", "elapsed_ms": 1.0, "notes": []}
    about = {"group": "every order", "number": 4, "sessions": {}, "isolation": {}}
    return [
        HistoryRecord(seq=900, t_us=0, kind="order", order=name, data=about),
        HistoryRecord(
            seq=901,
            t_us=0,
            kind="verdict",
            order=name,
            data={**judged, "failures": [failure], "repro": "twopc run x"},
        ),
    ]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in NEWER])
def test_older_histories_have_a_group_for_each_order(name: str) -> None:
    told = verdict(records(name))
    assert [group["name"] for group in told["groups"]] == [each["name"] for each in told["orders"]]


def test_repeats_that_differ_are_unstable() -> None:
    """Repeats that each pass but differ make the run inconclusive."""
    again = [
        dataclasses.replace(record, message="committed")
        if record.order == "again (2)" and record.kind == "outcome"
        else record
        for record in several()
    ]
    told = verdict(again)
    assert (told["verdict"], told["kind"], told["exit_code"]) == ("unknown", "unstable", 3)
    group = next(group for group in told["groups"] if group["name"] == "again")
    assert (group["kind"], group["notes"]) == (
        "unstable",
        "2 behaviours in 2 runs; b_write waited for a_write",
    )
    assert told["counts"]["failed"] == 0
    assert told["first_failure"] == {"message": group["notes"], "kind": "unstable"}
    (error,) = ElementTree.fromstring(junit(again).split("\n", 1)[1]).iter("failure")
    assert (error.get("type"), error.get("message")) == (
        "unstable",
        "2 behaviours in 2 runs; b_write waited for a_write",
    )


def test_a_name_that_no_order_could_be_played_of() -> None:
    """A group without any feasible order is reported in the place of its record, as unknown."""
    empty = {"group": "none", "orders": 6, "run": 0, "infeasible": 6, "behaviours": 0}
    told = [*records("lost_update"), HistoryRecord(seq=900, t_us=0, kind="group", data=empty)]
    *_, group = groups(told)
    assert (group.name, group.drawn, group.kind) == ("none", [], "unknown")
    assert group.text() == "0 of 6 feasible, 0 behaviours (run: 0); nothing could be played"
    assert "0 of 6 feasible" in page(told)
    assert "none" in junit(told)


def test_generated_orders_that_differ_are_not_unstable() -> None:
    (group,) = groups(played_again("lost_update", 5))
    assert (len(group.alike), group.unstable, group.kind) == (5, 0, "")


def test_the_verdict_counts_what_was_generated() -> None:
    told = verdict(several())
    assert told["seed"] == 7
    assert told["counts"] == {"orders": 9, "passed": 9, "failed": 0}  # without the infeasible order
    group = told["groups"][1]
    assert {name: group[name] for name in ("orders", "run", "infeasible", "behaviours")} == {
        "orders": 36,
        "run": 4,
        "infeasible": 12,
        "behaviours": 3,
    }


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        (
            GroupCounts(orders=36, run=4, infeasible=12, behaviours=4),
            "24 of 36 feasible, 4 behaviours (run: 4)",
        ),
        (GroupCounts(orders=2, run=2, behaviours=1), "2 of 2 feasible, 1 behaviour (run: 2)"),
        (
            GroupCounts(orders=1264, run=200, behaviours=9, left_out=1064, limit="limit 200"),
            "200 of 1,264 (limit 200): 9 behaviours (run: 200)",
        ),
        (
            GroupCounts(orders=1264, run=188, infeasible=12, behaviours=9, left_out=764, limit="s"),
            "500 of 1,264 (s): 12 infeasible, 9 behaviours (run: 188)",
        ),
    ],
)
def test_counts(counts: GroupCounts, text: str) -> None:
    assert counts_text(counts) == text


@pytest.mark.parametrize(
    ("missed", "kind", "said"),
    [
        ((), "safety", "nothing failed in any of its orders, and converged must"),
        (("twin #2",), "", "missed in twin #2"),
    ],
)
def test_of_a_generated_twin_some_order_must_fail(
    missed: tuple[str, ...], kind: str, said: str
) -> None:
    found = []
    twin = {"protections": ["marker"], "must_fail": "converged"}
    for number, name in enumerate(("twin #1", "twin #2"), start=1):
        about = {"group": "twin", "number": number, "twin": twin}
        judged = {
            "name": name,
            "kind": None,
            "verdict": "pass",
            "elapsed_ms": 1.0,
            "notes": [f"missed in {name}" if name in missed else "not missed"],
            "failures": [],
            "failed_checks": ["converged"] if name in missed else [],
        }
        found += [("order", name, about), ("end", name, None), ("verdict", name, judged)]
    found.append(("group", "", {"group": "twin", "orders": 2, "run": 2}))
    told = [
        HistoryRecord(seq=seq, t_us=seq, kind=kind_, order=order, data=data)
        for seq, (kind_, order, data) in enumerate(found)
    ]
    (group,) = groups(told)
    assert group.kind == kind
    assert group.text().endswith(said)


def test_what_could_not_be_played_has_not_passed() -> None:
    why = "bob cannot go on: b_write waits at pub for alice (a_write)"
    found = [
        ("order", "every order #3", "", {"group": "every order", "number": 3}),
        ("infeasible", "every order #3", why, None),
        ("group", "", "", {"group": "every order", "orders": 1, "infeasible": 1}),
    ]
    told = [
        HistoryRecord(seq=seq, t_us=seq, kind=kind, order=order, message=message, data=data)
        for seq, (kind, order, message, data) in enumerate(found)
    ]
    (group,) = groups(told)
    assert (group.kind, group.text()) == ("unknown", f"nothing could be played: {why}")
    assert verdict(told)["exit_code"] == 3


def test_junit_has_a_case_for_each_name() -> None:
    (suite,) = ElementTree.fromstring(junit(several()).split("\n", 1)[1])
    assert [case.get("name") for case in suite] == [group.name for group in groups(several())]
    told = {
        case.get("name"): {(each.get("name"), each.get("value")) for each in case.iter("property")}
        for case in suite
    }
    assert {("orders", "36"), ("behaviours", "3"), ("seed", "7")} <= told["every order"]
    assert ("switched_off", "version_check") in told["twin of alice first"]
    assert ("isolation.pub", "serializable") in told["winner [serializable]"]
    assert ("repeats", "2") in told["again"]
    out = next(case for case in suite if case.get("name") == "every order").findtext("system-out")
    assert out is not None
    assert "every order #1, and 1 like it" in out


def test_every_form_draws_the_same_orders() -> None:
    headings = [line for line in as_mermaid(several()).splitlines() if line.startswith("### ")]
    assert headings[1:4] == ["### every order \\#1", "### every order \\#4", "### every order \\#9"]
    assert first_diagram(several()).startswith("sequenceDiagram")
    assert first_diagram([]) == ""


def test_the_states_at_the_end() -> None:
    found = final_states(records("lost_update"))
    assert set(found) == {"pub", "sub1", "sub2"}
    (row,) = found["pub"]["alice first"]["account"]
    assert row["balance"] == "90"


def test_the_schema_allows_what_groups_are_made_of() -> None:
    for record in several():
        assert list(problems(json.loads(record.line()), SCHEMA_FILE)) == [], record
