"""A load that is replayed from its history: expected divergences, and reported ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from twopc.errors import ScenarioError
from twopc.sim.replay.loads import committed
from twopc.sim.report.history import History, HistoryRecord
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.theatres import played

SHIPPED = Path(__file__).parents[2] / "scenarios/stress/replay_in_commit_order.twopc.yaml"
TEXT = SHIPPED.read_text(encoding="utf-8").replace("transactions: 24", "transactions: 8")
TEXT = TEXT.replace("committed.count == 24", "committed.count == 8")


def replayed(replay: str) -> tuple[list[str], dict[str, object]]:
    """Return the failures of a replay, and its record."""

    async def play(history: History) -> list[str]:
        async with ModelTheatre() as theatre:
            verdict = await run(
                parse(TEXT.replace("{sync: commit, expect: {divergence: 0}}", replay)),
                theatre,
                history,
            )
        return [failure.message for order in verdict.orders for failure in order.failures]

    history = History()
    failures = played("model", play(history))
    (noted,) = (each.data for each in history.records if each.message == "replay")
    assert noted is not None
    return failures, noted


@pytest.mark.parametrize("sync", ["commit", "rows"])
def test_in_order(sync: str) -> None:
    failures, noted = replayed(f"{{sync: {sync}, expect: {{divergence: 0}}}}")
    assert failures == []
    assert noted["classes"] == {"outcome": 0, "rowcount": 0, "state": 0}
    assert noted["transactions"] == 8


@pytest.mark.parametrize("sync", ["session", "off"])
def test_without_deliveries(sync: str) -> None:
    """A divergence that is not expected is reported with its first case; an expected one is not."""
    failures, noted = replayed(f"{{sync: {sync}, expect: {{divergence: 0}}}}")
    (said,) = failures
    assert said.startswith("expected 0 divergences of the replay, got ")
    assert "(transfer): committed was expected, rejected: version_mismatch" in said
    again, same = replayed(
        f"{{sync: {sync}, expect: {{divergence: {{at_least: 1}}, classes: [outcome]}}}}"
    )
    assert (again, same) == ([], noted)
    failures, _ = replayed(
        f"{{sync: {sync}, expect: {{divergence: {{at_least: 1}}, classes: [rowcount]}}}}"
    )
    assert failures[0].startswith("expected at least 1 divergences of the replay, got 0 (outcome ")


def test_what_cannot_be_replayed() -> None:
    head = TEXT.partition("workload:")[0]
    orders = (
        "sessions: {a: {node: north, steps: [{sql: select 1}]}}\norders: [{name: x, steps: []}]\n"
    )
    with pytest.raises(ScenarioError, match="a replay is of a workload"):
        parse(f"{head}{orders}replay: {{expect: {{divergence: 0}}}}\n")
    with pytest.raises(ScenarioError, match="a replay delivers, and nothing is distributed here"):
        parse(
            TEXT.replace(
                "subscribers: [north, south]", "subscribers: [north, south]\n  distribution: none"
            )
        )
    with pytest.raises(ScenarioError, match="did you mean 'outcome'"):
        parse(TEXT.replace("divergence: 0", "divergence: 0, classes: [outcom]"))


def test_only_what_was_committed() -> None:
    """Refused attempts, and records from before statements were recorded, are skipped."""
    calls = [{"sql": "select 1", "params": {"a": 1}, "rowcount": 1}]
    data = {"number": 3, "attempt": 2, "calls": calls}
    ok = HistoryRecord(
        seq=1, t_us=1, kind="ok", order="load", session="client 1", node="n", step="s", data=data
    )
    records = [
        ok,
        HistoryRecord(seq=2, t_us=2, kind="rejected", data=data),
        HistoryRecord(seq=3, t_us=3, kind="ok", data={"number": 4}),
    ]
    (found,) = committed(records)
    assert (found.node, found.number, found.work.statements, found.rowcounts) == (
        "n", 3, (("select 1", {"a": 1}),), (1,),
    )  # fmt: skip
