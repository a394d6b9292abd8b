"""Tests that the verdict of a history is the one of its run."""

from __future__ import annotations

import json

import pytest

from tests.report.recorded import HISTORIES, NAMES, records
from twopc.sim.report.recorded_orders import played
from twopc.sim.report.verdict import EXIT_CODES, assemble, verdict, worst


@pytest.mark.parametrize("name", NAMES)
def test_as_when_it_was_played(name: str) -> None:
    recorded = json.loads((HISTORIES / f"{name}.verdict.json").read_text("utf-8"))
    told = verdict(records(name))
    if "groups" not in recorded:  # older than groups
        groups = told.pop("groups")
        assert [each["name"] for each in groups] == [each["name"] for each in told["orders"]]
    assert told == recorded


def test_a_failure_tells_where_and_how_to_see_it_again() -> None:
    told = verdict(records("failing"))
    assert (told["verdict"], told["kind"], told["exit_code"]) == ("fail", "safety", 1)
    assert told["counts"] == {"orders": 2, "passed": 1, "failed": 1}
    assert told["first_failure"]["line"] == 46
    assert told["first_failure"]["excerpt"][0].endswith("pub: [{id: 1, balance: 80}]")
    assert told["repro"] == 'twopc run failing.twopc.yaml --order "alice first"'


@pytest.mark.parametrize("name", ["lost_update", "failing"])
def test_a_history_that_breaks_off_is_never_a_pass(name: str) -> None:
    """A history that breaks off is no pass; an order that was judged keeps its verdict."""
    whole = records(name)
    judged = next(at for at, record in enumerate(whole) if record.kind == "verdict")
    for length in range(2, len(whole)):
        told = verdict(whole[:length])
        names = [order["name"] for order in told["orders"]]
        assert names == [order.name for order in played(whole[:length])]
        if length <= judged:
            assert (told["verdict"], told["kind"], told["exit_code"]) == (
                "unknown",
                "unfinished",
                3,
            )
        else:
            assert told["orders"][0] == whole[judged].data


def test_the_worst_wins() -> None:
    assert worst([]) == ""
    assert worst(["", "unknown", "liveness", ""]) == "liveness"
    assert worst(["unfinished", "unknown"]) == "unfinished"
    assert worst(list(EXIT_CODES)) == "safety"


def test_a_run_without_orders_has_a_verdict() -> None:
    assert assemble({}, [])["counts"]["orders"] == 0
