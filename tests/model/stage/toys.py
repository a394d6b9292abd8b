"""Small scenarios for tests of the model's stage, which need no server."""

from __future__ import annotations

from twopc.sim.report.history import History
from twopc.sim.scenario.check import LoadedScenario, parse
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.run import RunVerdict, run
from twopc.sim.scenario.theatres import played
from twopc.sim.scenario.values import Selection

#: Two writers of a row; the orders and other parts are appended.
TWO_WRITERS = """
twopc: 1
name: two-writers
topology: {publisher: pub, subscribers: [sub1], distribution: none}
tables:
  account:
    columns: {id: int primary key, balance: int not null}
    rows: [{id: 1, balance: 100}]
sessions:
  a:
    node: pub
    steps:
      - a_begin: begin
      - a_write: {sql: "update account set balance = balance + 1 where id = 1"}
      - a_end: commit
  b: {node: pub, steps: [b_write: {sql: "update account set balance = balance * 2 where id = 1 returning balance"}]}
"""
ONE_ORDER = """
orders:
  - name: b waits
    steps: [a_begin, a_write, b_write, a_end]
    expect:
      steps: {b_write: {blocked_by: a_write}}
      tables: {account: {pub: [{id: 1, balance: 202}]}}
      converged: false
"""


def loaded(text: str = TWO_WRITERS + ONE_ORDER) -> LoadedScenario:
    """Parse a file."""
    return parse(text, "toy.twopc.yaml")


def play(
    file: LoadedScenario, *, seed: int | None = None, selection: Selection | None = None
) -> tuple[RunVerdict, History]:
    """Play a file on the model."""
    history = History()

    async def go() -> RunVerdict:
        async with ModelTheatre(seed=seed) as theatre:
            return await run(file, theatre, history, selection=selection or Selection())

    return played("model", go()), history
