"""Every change that a report names was made by the transaction that it names: compared with who wrote the row."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.fix_sample import Sample
from twopc.names import VERSION_COLUMN, BranchId
from twopc.sim.faults.matrix import CellPlayer, MatrixCell, MatrixSetup, cases
from twopc.sim.model.node.node import ModelNode
from twopc.sim.report.fold import Fold
from twopc.sim.report.history import HistoryRecord, OrderHistory
from twopc.sim.scenario.check import load
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.theatres import TheatreOptions, played
from twopc.sim.scenario.values import Selection

SCENARIOS = Path(__file__).parents[2] / "scenarios"
#: Without loads. By their place: to parse them all takes a tenth of what a worker needs to collect every test.
FILES = [path for path in sorted(SCENARIOS.rglob("*.twopc.yaml")) if path.parent.name != "stress"]
#: Cells of each order that are played in every run.
SAMPLE = 6

#: By node, what was done, and the row version that it was done with: who did it.
Truth = dict[tuple[str, str, str], str]


def name_of(path: Path) -> str:
    return str(path.relative_to(SCENARIOS)).removesuffix(".twopc.yaml")


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Truth]:
    """What every commit at every node of a model has written, as the node itself has it."""
    truth: Truth = {}
    finish = ModelNode.finish

    def see(node: ModelNode, top: Any, record: Any) -> None:
        branch = BranchId.parse(top.gid)
        session = top.session.application_name if top.session is not None else ""
        who = str(branch.global_id) if branch is not None else session
        for table, _, old, new in top.changes:
            place = table.at.get(VERSION_COLUMN)
            if place is None:
                continue
            for what, row in (("made", new), ("replaced", old)):
                if row is not None:
                    truth[node.name, what, str(row[place])] = who
        finish(node, top, record)

    with monkeypatch.context() as patched:
        patched.setattr(ModelNode, "finish", see)
        yield truth


def wrong(fold: Fold, truth: Truth) -> list[str]:
    """The changes that are credited to somebody else than the one who made them."""
    found = []
    publisher = (*fold.nodes, "")[0]
    for change in (each for row in fold.changes.rows() for each in row):
        author = change.author
        told = "" if author is None else author.gid or author.session
        if told:
            what, row = (
                ("made", change.row) if change.row is not None else ("replaced", change.before)
            )
            assert row is not None
            if VERSION_COLUMN not in row:  # of a merged table, whose rows have none
                continue
            who = truth[publisher, what, str(row[VERSION_COLUMN])]
            if told != who:
                found.append(f"{change.name} {change.label} is {who}'s, and told as {told}'s")
    return found


def of_before(records: list[HistoryRecord]) -> list[HistoryRecord]:
    """The same history as it was written before it had ids of transactions."""
    later = {"xid", "xids", "branches"}
    return [
        dataclasses.replace(
            each, data={name: value for name, value in each.data.items() if name not in later}
        )
        if each.data
        else each
        for each in records
        if each.kind != "settled"
    ]


class Recording(CellPlayer):
    """Keeps the history of each case that it plays."""

    def __init__(self, setup: MatrixSetup, place: ModelTheatre) -> None:
        super().__init__(setup, place)
        self.histories: dict[str, list[HistoryRecord]] = {}

    async def _play(self, case: Any, name: str) -> OrderHistory:
        own = await super()._play(case, name)
        self.histories[name] = own.records
        return own


@pytest.mark.sample(16)
@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_each_change_is_its_transactions(
    path: Path, sample: Sample, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Of every order as it stands, and with a fault at points that it comes by; ``--full``: at all of them."""
    caplog.set_level(logging.CRITICAL)
    setup = MatrixSetup(path=str(path), on="model", options=TheatreOptions(), selection=Selection())
    orders = [case.name for case in cases(load(path), setup.selection)]

    play = partial(misattributed, setup, lambda cells: sample(cells, SAMPLE), monkeypatch)
    assert [each for order in orders for each in played("model", play(order))] == []


async def misattributed(
    setup: MatrixSetup,
    choose: Callable[[list[MatrixCell]], list[MatrixCell]],
    monkeypatch: pytest.MonkeyPatch,
    order: str,
) -> list[str]:
    """Plays the chosen cells of an order; the changes that are credited to the wrong transaction."""
    errors = []
    async with ModelTheatre() as theatre:
        stand = Recording(setup, theatre)
        for cell in choose(await stand.derive(order)):
            stand.histories.clear()
            with watched(monkeypatch) as truth:
                await stand.cell(cell)
            for name, records in stand.histories.items():
                for history in (records, of_before(records)):
                    errors += [f"{name}: {each}" for each in wrong(Fold(history), truth)]
    return errors


def test_a_row_that_a_statement_in_doubt_has_moved(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its key is gone, and nobody knows from the row who took it away: not the one who commits just then."""
    caplog.set_level(logging.CRITICAL)
    path = SCENARIOS / "transactional" / "format_scall.twopc.yaml"
    setup = MatrixSetup(path=str(path), on="model", options=TheatreOptions(), selection=Selection())

    def choose(cells: list[MatrixCell]) -> list[MatrixCell]:
        chosen = [cell for cell in cells if "before_commit(sub1) #2" in str(cell)]
        assert chosen
        return chosen

    play = misattributed(setup, choose, monkeypatch, "changed columns only")
    assert played("model", play) == []
