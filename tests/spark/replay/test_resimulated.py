"""Tests of simulating a recorded load again, without Spark: with and without changed settings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

from twopc.sim.report.history import HistoryRecord
from twopc.sim.spark.replay.simulation import Original, compared
from twopc.sim.spark.sweep import grid
from twopc.sim.spark.sweep.trial import simulated

SMALL = Path(__file__).parents[2] / "workload/small"


def transactions(records: Sequence[HistoryRecord]) -> list[dict[str, Any]]:
    """Return the first attempts of a load's transactions, with their final outcomes."""
    found: dict[int, dict[str, Any]] = {}
    for each in records:
        data = each.data or {}
        if "calls" not in data:
            continue
        first = {
            "tx": data["number"],
            "session": each.session,
            "node": each.node,
            "step": each.step,
            "due_us": data["due_us"],
            "statements": [
                {"sql": call["sql"], "params": json.dumps(call["params"])} for call in data["calls"]
            ],
        }
        known = found.setdefault(data["number"], first)
        known |= {"outcome": each.kind, "kind": (each.conflict or {}).get("kind")}
    return list(found.values())


def p50(row: Any) -> float:
    return float(HdrHistogram.decode(row["commit_hdr"]).get_value_at_percentile(50))


@pytest.mark.parametrize("name", ["agent_outage", "tpcb"])
def test_nothing_changed(name: str) -> None:
    """The same load with the same settings has the same result."""
    loaded = grid.with_settings(grid.read(str(SMALL / f"{name}.yaml")), ())
    was, records = simulated(loaded, 3, load_seed=4)
    recorded = transactions(records)
    assert len(recorded) > 10
    now, found = compared(loaded, recorded, Original.of(records), seed=None)
    assert found == []
    counts = ("committed", "rejected", "errors", "in_doubt", "attempts")
    assert [now[each] for each in counts] == [was[each] for each in counts]
    assert p50(now) == pytest.approx(p50(was), rel=0.01)


def test_something_changed() -> None:
    """With rare deliveries and more Subscribers more transactions are refused, and each is named."""
    document = grid.read(str(SMALL / "agent_outage.yaml"))
    loaded = grid.with_settings(document, ())
    was, records = simulated(loaded, 4)
    recorded, original = transactions(records), Original.of(records)
    slow = grid.with_settings(document, [("timing.north-office", "constant 5ms")])
    now, found = compared(slow, recorded, original, seed=None)
    assert p50(now) > p50(was) + 5000
    spread = grid.with_settings(
        document, [("topology.subscribers", "[north, south, east, west]"), ("workload.sync", "1s")]
    )
    now, found = compared(spread, recorded, original, seed=9, spread=True, speed=2.0)
    assert now["verdict"] == "pass"
    assert now["virtual_s"] < was["virtual_s"]
    outcomes = [each for each in found if each.kind == "outcome"]
    assert outcomes
    assert {each.session for each in outcomes} <= {f"client {number}" for number in range(1, 5)}
    assert str(outcomes[0].call).endswith("(transfer), seed 9")
    state = next(each for each in found if each.kind == "state")
    assert (state.article, state.call) == ("account", "at office, seed 9")
