"""Tests that every change in a report is attributed to the transaction that made it, by row versions."""

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
#: Scenarios without loads, by path: parsing all of them takes a tenth of a worker's
#: collection time.
FILES = [path for path in sorted(SCENARIOS.rglob("*.twopc.yaml")) if path.parent.name != "stress"]
#: Number of each order's cells that are played in every run.
SAMPLE = 6

#: The transaction or session that made or replaced a row version, by node, operation and version.
Truth = dict[tuple[str, str, str], str]


def name_of(path: Path) -> str:
    return str(path.relative_to(SCENARIOS)).removesuffix(".twopc.yaml")


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Truth]:
    """Yield what every commit at every node of a model has written, according to the node."""
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
    """Return the changes that are attributed to another transaction than their own."""
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
            if VERSION_COLUMN not in row:  # rows of a merged table have no version
                continue
            who = truth[publisher, what, str(row[VERSION_COLUMN])]
            if told != who:
                found.append(f"{change.name} {change.label} is {who}'s, and told as {told}'s")
    return found


def of_before(records: list[HistoryRecord]) -> list[HistoryRecord]:
    """Return the history as it was written before it had transaction ids."""
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
    """Changes are attributed correctly in every order, without a fault and with faults at sampled points.

    ``--full`` plays a fault at every point that the order reaches.
    """
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
    """Play the chosen cells of an order; return the changes attributed to the wrong transaction."""
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
    """A change of a key by a statement in doubt is not attributed to a transaction that commits then.

    The key is gone, so the row does not show which transaction changed it.
    """
    caplog.set_level(logging.CRITICAL)
    path = SCENARIOS / "transactional" / "format_scall.twopc.yaml"
    setup = MatrixSetup(path=str(path), on="model", options=TheatreOptions(), selection=Selection())

    def choose(cells: list[MatrixCell]) -> list[MatrixCell]:
        chosen = [cell for cell in cells if "before_commit(sub1) #2" in str(cell)]
        assert chosen
        return chosen

    play = misattributed(setup, choose, monkeypatch, "changed columns only")
    assert played("model", play) == []
