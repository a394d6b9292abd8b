"""Tests of the benchmark of virtual time: its measurements, and how its figures are computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.bank import Bank
from benchmarks.bare import BareLoop
from benchmarks.model import Side, counted, figures
from twopc.sim.model.values import Delay, ModelTiming
from twopc.sim.report import history
from twopc.sim.report.history import HistoryRecord


def test_figures(tmp_path: Path) -> None:
    small, large = Side(4, 2, tmp_path), Side(20, 5, tmp_path)
    for side in (small, large):
        side.round(40)
        side.end()
    found = {figure.name: figure for figure in figures(small, large, [100, 104])}
    assert [*found] == ["model_ratio", "growth_1000", "memory_growth"]
    assert all(figure.value > 0 for figure in found.values())
    assert found["memory_growth"].met


def test_counts_of_a_transaction(tmp_path: Path) -> None:
    """A transaction costs about five forced writes and fewer than 18 messages.

    Forced writes: two at each node and one in the decision log. Messages: begin, the statement, the statement over the
    link, the votes, also over the link, the decision (several share one), and COMMIT PREPARED at both nodes.
    """
    counts = counted(4, 2, 400, tmp_path)
    assert 5.0 <= counts.writes_each < 5.2
    assert 14 < counts.messages_each < 18


def test_the_history_is_one(tmp_path: Path) -> None:
    """The benchmark writes records of the form that every reader of histories reads."""
    path = tmp_path / "lines.jsonl"
    with path.open("w") as lines:
        bank = Bank(clients=2, nodes=2, history=lines)
        bank.run(5)
        bank.check()
    records = [HistoryRecord.parse(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(records) == 20
    assert {record.kind for record in records} <= set(history.KINDS)
    assert [record.seq for record in records] == list(range(20))


def test_a_run_that_lost_money_is_void(tmp_path: Path) -> None:
    with (tmp_path / "lines.jsonl").open("w") as lines:
        bank = Bank(clients=2, nodes=2, history=lines)
        bank.run(5)
        bank.paid += 1
        with pytest.raises(RuntimeError, match="void"):
            bank.check()


def test_what_is_over_is_forgotten(tmp_path: Path) -> None:
    """Branch markers, WAL records and decisions of finished transactions are removed."""
    with (tmp_path / "lines.jsonl").open("w") as lines:
        drawn = ModelTiming(message=Delay(kind="exponential", a=0.0002))
        bank = Bank(clients=20, nodes=3, history=lines, timing=drawn)
        held = []
        for _ in range(2):
            bank.run(600)
            bank.kernel.run(bank.kernel.now + 2.0)
            nodes = bank.nodes.values()
            held.append(
                sum(len(node.markers()) + len(node.wal.records) for node in nodes)
                + len(bank.ledger.decisions)
                + len(bank.kernel._randoms)
            )
    assert held[1] <= held[0] + 20


def test_the_bare_loop_ends() -> None:
    loop = BareLoop(clients=3, nodes=2, messages=16, writes=5)
    loop.run(10)
    loop.run(10)
