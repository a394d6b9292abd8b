"""Tests of the checks of a scenario's statements by servers, without playing them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.scenario.conftest import HEAD
from twopc.sim.scenario.check import load, parse
from twopc.sim.scenario.connect import check_statements
from twopc.sim.scenario.postgres_theatre import PostgresTheatre

SCENARIOS = Path(__file__).parents[2] / "scenarios"

BODY = """\
sessions:
  alice:
    node: sub1
    steps:
      - right: {sql: "update t set n = :n + 1 where id = :id", params: {n: 1, id: 2}}
      - empty: {sql: "select :what", params: {what: x}}
      - column: {sql: "update t set m = 1"}
      - two:
          lines:
            - select n from t
            - select n frm t
  office:
    node: pub
    steps:
      - look: {check: "select nowhere(n) from t", rows: []}
      - makes: {sql: "create table if not exists more (x int)"}
  plain:
    node: pub
    plain: true
    steps: [passed: {script: "create table mine (x int); insert into mine values (1)"}]
orders:
  - name: x
    steps: [right, empty, column, two, look, makes, passed]
    expect: {sql: {at: everywhere, text: "select * from public.nothing"}}
expect: {sql: "select * from t where n < 0"}
"""


async def test_what_servers_do_not_take(server):
    loaded = parse(HEAD + BODY)
    async with PostgresTheatre(server=server) as theatre:
        await check_statements(loaded, theatre)
    said = [(each.mark.line, each.message) for each in loaded.document.problems]
    assert said == [
        (15, 'sub1 says: column "m" of relation "t" does not exist (42703)'),
        (19, 'sub1 says: syntax error at or near "t" (42601)'),
        (23, "pub says: function nowhere(integer) does not exist (42883)"),
        *((32, f'{node} says: relation "public.nothing" does not exist (42P01)')
          for node in ("pub", "sub1", "sub2")),
    ]  # fmt: skip


async def test_a_command_that_is_none(server):
    loaded = parse(HEAD + BODY.replace("select n from t\n", "selec n from t\n"))
    async with PostgresTheatre(server=server) as theatre:
        await check_statements(loaded, theatre)
    assert 'sub1 says: syntax error at or near "selec" (42601)' in [
        each.message for each in loaded.document.problems
    ]


QUERIES = """\
matrix: {isolation.pub: [read committed, serializable]}
sessions:
  office: {node: pub, steps: [look: {sql: select n from t}]}
orders:
  - name: x
    steps: [look]
    expect:
      cells:
        read committed: {sql: select m from t}
        serializable: {sql: select o from t}
twin:
  protections: {version_check: off}
  must_fail: sql
  expect: {sql: {at: sub1, text: select p from t}}
"""


async def test_queries_of_twins_and_cells(server):
    """The queries of twins are asked too, and those of cells that the checked cell is among."""
    loaded = parse(HEAD + QUERIES)
    async with PostgresTheatre(server=server) as theatre:
        await check_statements(loaded, theatre)
    assert [(each.mark.line, each.message) for each in loaded.document.problems] == [
        (17, 'pub says: column "m" does not exist (42703)'),
        (22, 'sub1 says: column "p" does not exist (42703)'),
    ]


async def test_tables_that_cannot_be_made(server):
    loaded = parse(HEAD.replace("n: int", "n: integr") + BODY)
    async with PostgresTheatre(server=server) as theatre:
        await check_statements(loaded, theatre)
    (problem,) = loaded.document.problems
    assert problem.mark.line == 7
    assert re.search(r'type "integr" does not exist', problem.message)


@pytest.mark.parametrize("name", ["immediate/lost_update", "transactional/no_echo"])
async def test_a_shipped_scenario_is_taken(server, name):
    loaded = load(SCENARIOS / f"{name}.twopc.yaml")
    async with PostgresTheatre(server=server) as theatre:
        await check_statements(loaded, theatre)
    assert loaded.document.problems == []
