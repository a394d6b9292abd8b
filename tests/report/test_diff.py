"""Tests of comparing two plays of an order: chance makes no difference, other changes do."""

from __future__ import annotations

import dataclasses

from tests.report.recorded import records
from twopc.sim.report.diff import differences, first_difference, side_by_side
from twopc.sim.report.history import HistoryRecord, by_order


def orders(name: str) -> list[list[HistoryRecord]]:
    """Return the records of each order of a history."""
    return [of for _, of in by_order(records(name))]


def test_an_order_is_like_itself() -> None:
    for name in ("lost_update", "deadlock", "no_echo", "stuck"):
        for order in orders(name):
            assert first_difference(order, order) is None
    assert differences(records("lost_update"), records("lost_update")) == []


def test_whether_a_commit_or_what_waited_for_it_is_seen_first_is_no_difference() -> None:
    one, other, _ = orders("winner_rolls_back")
    assert [record.kind for record in one] != [record.kind for record in other]
    assert first_difference(one, other) is None


def test_where_two_orders_part() -> None:
    one, other = orders("lost_update")
    found = first_difference(one, other)
    assert found is not None
    assert (found.one, found.other) == (
        "bob b_write waits for alice a_write at pub",
        "alice a_end: ok",
    )
    assert found.common[-1] == "alice a_write: ok 1"
    assert {record.seq: record for record in one}[found.one_seq].kind == "blocked"
    assert found.text().splitlines()[0] == "alice first"
    assert found.text().splitlines()[-2:] == [
        "  < bob b_write waits for alice a_write at pub",
        "  > alice a_end: ok",
    ]


def test_one_that_breaks_off() -> None:
    whole = orders("lost_update")[0]
    half = whole[: len(whole) // 2]
    found = first_difference(half, whole)
    assert found is not None
    assert (found.one, found.one_seq) == ("", -1)
    assert "  < nothing more" in found.text()
    nothing = first_difference([], whole)
    assert nothing is not None
    assert "(from the beginning)" in nothing.text()


def test_runs_with_other_orders() -> None:
    one, other = records("lost_update"), records("winner_rolls_back")
    assert len(differences(one, other)) == 5
    (changed,) = differences(
        one,
        [
            dataclasses.replace(record, sqlstate="40001", kind="error")
            if record.kind == "rejected" and record.order == "alice first"
            else record
            for record in one
        ],
    )
    assert changed.order == "alice first"
    assert changed.other.endswith("b_write: error 40001")


def test_side_by_side() -> None:
    one, other = orders("lost_update")
    lines = side_by_side(one, other, width=100).splitlines()
    assert lines[0].split("  ")[0] == "… 2 alike"
    (only,) = [line for line in lines if line.endswith("<")]
    assert only.startswith("bob b_write waits for alice")
    assert all(len(line) <= 100 for line in lines)
    (another,) = [
        line
        for line in side_by_side(
            one, [*one[:-5], *orders("winner_rolls_back")[0][-5:]]
        ).splitlines()
        if "≠" in line
    ][:1]
    assert another.startswith("account at ")
