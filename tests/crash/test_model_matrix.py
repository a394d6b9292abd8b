"""A scenario's crash matrix in virtual time: a sample of its cells, and the kinds that once did not end."""

from __future__ import annotations

from pathlib import Path

from sim.crash.matrix import MatrixResult, Setup, Stand
from sim.scenario.model_stage import ModelTheatre
from sim.scenario.theatres import TheatreOptions, played
from sim.scenario.words import Selection

LOST_UPDATE = Path(__file__).parents[2] / "scenarios/immediate/lost_update.twopc.yaml"
ORDER = "alice first"
EVERY = 8


def test_a_sample_of_the_cells_of_the_lost_update() -> None:
    """Every eighth, and whoever stands or is away while recovery works at the end."""

    async def play() -> list[MatrixResult]:
        async with ModelTheatre() as theatre:
            setup = Setup(
                path=str(LOST_UPDATE), on="model", options=TheatreOptions(), selection=Selection()
            )
            stand = Stand(setup, theatre)
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
