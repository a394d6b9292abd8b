"""Tests of the reason why two serializable transactions could commit: it states no false read or value."""

from __future__ import annotations

import pytest

from twopc.sim.report.dependencies import across_nodes
from twopc.sim.report.fold import Fold
from twopc.sim.report.history import History
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.run import run
from twopc.sim.scenario.theatres import played

FILE = """\
twopc: 1
name: skew
about: Written in a test.
topology: {publisher: pub, subscribers: [sub1, sub2], isolation: serializable}
tables:
  t:
    columns: {id: int primary key, who: text, n: int}
    rows: [{id: 1, who: a, n: 9}, {id: 2, who: b, n: 9}, {id: 3, who: c, n: 9}]
sessions:
  a: {node: sub1, steps: [ab: begin, ar: {sql: "ALICE"}, aw: {sql: "update t set n = 0 where id = 1"}, ac: commit]}
  b: {node: sub2, steps: [bb: begin, br: {sql: "BOB"}, bw: {sql: "update t set n = 0 where id = 2"}, bc: commit]}
orders: [{name: o, steps: [ab, bb, ar, br, aw, bw, ac, bc]}]
"""


@pytest.mark.parametrize(
    ("alice", "bob", "how"),
    [
        ("select n from t where id = 2", "select n from t where 1 = id for update", "could not"),
        ("select * from t", "select id, n from t", "could not"),
        ("select sum(n) from t", "select n from t where id = 1", "might not"),
        ("select n from t where id = 2 and n > 5", "select n from t where id = 1", "might not"),
        # these have not read the row, or none of its changed columns
        ("select n from t where id <> 2", "select n from t where id <> 1", ""),
        ("select n from t where id = 3 and n > 2", "select n from t where id = 3 and n > 1", ""),
        ("select n from t order by id desc limit 1", "select n from t where id = 1", ""),
        ("select who from t where id = 2", "select who from t where id = 1", ""),
    ],
)
def test_what_two_transactions_have_read(alice: str, bob: str, how: str) -> None:
    loaded = parse(FILE.replace("ALICE", alice).replace("BOB", bob))
    history = History()

    async def playing() -> None:
        async with ModelTheatre() as theatre:
            await run(loaded, theatre, history)

    played("model", playing())
    cause, _ = across_nodes(Fold([record for record in history.records if record.order == "o"]))
    assert cause.endswith(f"one after the other they {how} have ended so" if how else "")
    assert bool(cause) == bool(how)
