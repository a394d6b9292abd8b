"""Specs are played as isolationtester plays them: who waits when, and what each step returns."""

from __future__ import annotations

from pathlib import Path

import pytest

from twopc.sim.report.history import History, by_order
from twopc.sim.scenario.check import load
from twopc.sim.scenario.postgres_stage import PostgresTheatre
from twopc.sim.scenario.run import run

SPECS = Path(__file__).parent / "specs"

#: Permutation by permutation: each step in the order in which it is launched, with what it returns, or the
#: SQLSTATE of its error. `…` before a step: isolationtester would report it as waiting first.
PLAYED = {
    "setups": ["look 1 2", "look 1 2"],
    "session_setup": ["look 1 | leave | stay", "leave | look 2 | stay"],
    "blocking": [
        "s1u | …s2u | s3look 100 | s1c | s3look_2 70",
        "s1u | …s2u | s1r | s3look 80",
        "s1u | s1c | s2u | s3look 70",
    ],
    "repeated": [
        "look 1 | add | look_2 2 | double | look_3 4",
        "add | double | add_2 | look_4 5",
        "double | look 2",
    ],
    "star": ["s1w | …s2w | s1c | s2look 3"],
    "other": ["s1w | …s2w | …s3w | s1c | s2look 3 4"],
    "notices": ["s2begin | s1w | s2look 2 | s2end"],
    "names": ["read_it 1 | lit_1 1 | say_when 1 | step 2"],
    "every": ["s1a | s1b | s2a", "s1a | s2a | s1b", "s2a | s1a | s1b"],
    "deadlock": ["s1one | s2two | …s1two | s2one 40P01 | s1c | s2c"],
    "lock_timeout": ["s1w | …s2w 55P03 | s2c | s1c | s3look 2"],
    "advisory": ["s1lock True | …s2lock True | s1free True | s2free True"],
    "prepared": ["s1b | s1w | s1p | …s2w | s1c"],
}


def told(records) -> str:
    """One permutation, as above; whether the victim of a deadlock is seen waiting is its server's haste."""
    waited = {record.step for record in records if record.kind == "blocked"}
    results = {
        record.step: " ".join(str(value) for row in record.rows or () for value in row.values())
        or record.sqlstate
        for record in records
        if record.kind in ("ok", "rejected", "error")
    }
    launched = [record.step for record in records if record.kind == "invoke" and record.session]
    return " | ".join(
        f"{'…' if step in waited and results[step] != '40P01' else ''}{step} {results[step]}".strip()
        for step in launched
    )


def test_every_spec_is_here() -> None:
    assert {path.stem for path in SPECS.glob("*.spec")} == set(PLAYED)


@pytest.mark.parametrize("name", PLAYED)
async def test_it_is_played_as_by_isolationtester(name, server) -> None:
    history = History()
    async with PostgresTheatre(server=server) as theatre:
        verdict = await run(load(SPECS / f"{name}.spec"), theatre, history)

    assert verdict.kind == ""
    orders = [told(records) for order, records in by_order(history.records) if order]
    assert orders == PLAYED[name]
