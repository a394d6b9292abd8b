"""Tests of a scenario's crash matrix in virtual time: a sample of its cells, and former hangs."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from twopc.protocol.variants import VARIANTS
from twopc.sim.faults.matrix import (
    CellPlayer,
    MatrixCell,
    MatrixResult,
    MatrixSetup,
    cases,
    left_out,
)
from twopc.sim.scenario.check import load
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.theatres import TheatreOptions, played
from twopc.sim.scenario.values import Selection

SCENARIOS = Path(__file__).parents[2] / "scenarios"
LOST_UPDATE = SCENARIOS / "immediate/lost_update.twopc.yaml"
ORDER = "alice first"
EVERY = 8


def test_a_sample_of_the_cells_of_the_lost_update() -> None:
    """Every eighth cell holds, and every pause or stop during the final recovery."""

    async def play() -> list[MatrixResult]:
        async with ModelTheatre() as theatre:
            setup = MatrixSetup(
                path=str(LOST_UPDATE), on="model", options=TheatreOptions(), selection=Selection()
            )
            stand = CellPlayer(setup, theatre)
            cells = await stand.derive(ORDER)
            assert len(cells) > 500
            chosen = [
                cell
                for number, cell in enumerate(cells)
                if number % EVERY == 0
                or (cell.point.startswith("recovery.") and cell.do.startswith(("pause", "stop")))
            ]
            return [await stand.cell(cell) for cell in chosen]

    results = played("model", play())
    assert [(str(result.cell), result.broken) for result in results if result.broken] == []


@pytest.mark.parametrize(
    ("name", "order", "point", "nth", "do"),
    [
        ("dies_undecided", "both are prepared", "reply.prepare(sub1)", 1, "pause coordinator"),
        ("dies_undecided", "both are prepared", "recovery.before_finish(pub)", 1, "crash coordinator"),
        ("apply_meets_in_doubt", "the agent waits for recovery", "recovery.begin", 2, "crash coordinator"),
        ("applied_but_unmarked", "on its way", "coordinator.begin(sub1)", 1, "pause coordinator"),
        ("applied_but_unmarked", "on its way", "coordinator.before_prepare(pub)", 1, "cut coordinator-pub"),
    ],
)  # fmt: skip
def test_a_fault_that_strikes_after_the_end_is_mended(
    name: str, order: str, point: str, nth: int, do: str
) -> None:
    """A fault that strikes after the end of an order is healed.

    It is the file's own fault, delayed by the cell's, or the cell's fault in the recovery from
    the file's.
    """

    async def play() -> MatrixResult:
        async with ModelTheatre() as theatre:
            path = str(SCENARIOS / f"crash/{name}.twopc.yaml")
            setup = MatrixSetup(
                path=path, on="model", options=TheatreOptions(), selection=Selection(twins=False)
            )
            cell = MatrixCell(order=order, point=point, nth=nth, do=do)
            return await CellPlayer(setup, theatre).cell(cell)

    result = played("model", play())
    assert (result.struck, result.broken) == (True, ())


def test_every_order_in_every_variant_that_allows_it() -> None:
    """Every order is played in every variant that allows it, whatever variant the file names.

    Two Subscribers in one transaction have no last agent.
    """
    chosen = Selection()
    loaded = load(SCENARIOS / "commit/two_subscribers.twopc.yaml")
    alone = [case.name for case in cases(loaded, chosen)]
    found = list(cases(loaded, chosen, tuple(VARIANTS)))
    assert {case.scenario.topology.commit for case in found} == {*VARIANTS} - {"last_agent"}
    assert len(found) == 3 * len(alone)
    why = left_out(loaded, chosen, tuple(VARIANTS))
    assert [*why] == [f"{name} [last_agent]" for name in alone]
    assert all("use another 'commit'" in reason for reason in why.values())


@pytest.mark.parametrize("commit", VARIANTS)
def test_a_cell_in_each_variant(commit: str) -> None:
    """The cell holds in each variant if the coordinator dies during the second phase.

    It dies with one of two branches told to commit, or after the last agent's answer.
    """

    async def play() -> list[MatrixResult]:
        async with ModelTheatre() as theatre:
            setup = MatrixSetup(
                path=str(LOST_UPDATE), on="model", options=TheatreOptions(), selection=Selection(),
                commits=(commit,),
            )  # fmt: skip
            stand = CellPlayer(setup, theatre)
            cells = await stand.derive(f"{ORDER} [{commit}]")
            assert {cell.commit for cell in cells} == {commit}
            chosen = [
                cell
                for cell in cells
                if cell.do == "crash coordinator"
                and cell.point.startswith(("reply.commit", "coordinator.be"))
            ]
            assert len(chosen) > 3
            return [await stand.cell(cell) for cell in chosen]

    results = played("model", play())
    assert [(str(result.cell), result.broken) for result in results if result.broken] == []


def test_a_guess_that_a_cell_makes_wrong_is_confessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage is tolerated only if the application does not get a false confirmation.

    The operator commits a branch manually in expectation of a commit, but a vote is lost.
    """

    async def play() -> MatrixResult:
        async with ModelTheatre() as theatre:
            setup = MatrixSetup(
                path=str(SCENARIOS / "commit/operator_guesses.twopc.yaml"), on="model",
                options=TheatreOptions(), selection=Selection(twins=False),
                commits=("presumed_nothing",),
            )  # fmt: skip
            cell = MatrixCell(
                order="the right one [presumed_nothing]", point="reply.prepare(pub)", nth=1,
                do="cut coordinator-sub1",
            )  # fmt: skip
            return await CellPlayer(setup, theatre).cell(cell)

    assert played("model", play()).broken == ()
    monkeypatch.setattr("twopc.sim.faults.matrix._is_confessed", lambda *_: False)
    assert [what.partition(":")[0] for what in played("model", play()).broken] == [
        "atomic",
        "converged",
    ]


def test_branches_that_cannot_be_settled_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    """A cell counts branches that are not settled yet, and logs none of them; other runs log each."""

    async def play() -> MatrixResult:
        async with ModelTheatre() as theatre:
            path = str(LOST_UPDATE)
            setup = MatrixSetup(
                path=path, on="model", options=TheatreOptions(), selection=Selection()
            )
            cell = MatrixCell(
                order=ORDER, point="coordinator.before_commit(sub1)", nth=1, do="stop node sub1"
            )
            return await CellPlayer(setup, theatre).cell(cell)

    result = played("model", play())
    assert result.broken == ()
    assert result.unsettled > 0
    assert [record for record in caplog.records if record.msg == "branch not settled yet"] == []
    logging.getLogger("twopc.drivers.hub").warning("branch not settled yet")
    assert len(caplog.records) == 1
