"""Tests of numbers that are not finite: they are shown and expected as PostgreSQL prints them."""

from __future__ import annotations

import pytest

from tests.scenario.conftest import HEAD
from twopc.sim.report.history import History, plain
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.theatres import played
from twopc.sim.sessions.results import table

NUMBERS = "select 'infinity'::float8 as up, '-infinity'::float8 as down, 'nan'::float8 as no"
SHOWN = {"up": "Infinity", "down": "-Infinity", "no": "NaN"}
TEXT = f"""{HEAD}
sessions:
  office: {{node: pub, steps: [look: {{check: "{NUMBERS}", rows: [{{up: Infinity, down: -Infinity, no: NaN}}]}}]}}
orders:
  - {{name: one, steps: [look], expect: {{sql: "{NUMBERS}"}}}}
"""


def _checked(history: History, failures: list[str]) -> None:
    looked, asked = (
        next(r for r in history.records if r.rows and r.kind == k) for k in ("ok", "query")
    )
    assert [*looked.rows, *asked.rows] == [SHOWN, SHOWN]
    assert len(failures) == 1, "only the query, which is to return no rows"
    assert "Infinity" in failures[0]


async def test_on_servers(server) -> None:
    history = History()
    async with PostgresTheatre(server=server) as theatre:
        verdict = await run(parse(TEXT), theatre, history)
    _checked(history, [each.message for order in verdict.orders for each in order.failures])


def test_on_the_model() -> None:
    history = History()

    async def go() -> list[str]:
        async with ModelTheatre() as theatre:
            verdict = await run(parse(TEXT), theatre, history)
        return [each.message for order in verdict.orders for each in order.failures]

    _checked(history, played("model", go()))


@pytest.mark.parametrize(
    ("number", "shown"), [(1.5, 1.5), (float("nan"), "NaN"), (-float("inf"), "-Infinity")]
)
def test_as_json_and_in_a_table(number: float, shown: object) -> None:
    assert plain(number) == shown
    assert table([{"n": number}])[1] == str(shown)
