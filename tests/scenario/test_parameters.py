"""Routines with every kind of parameter return and deliver the same on servers and in the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.agreement.test_catalogue import on_model
from tests.model.node.playing import make_node
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.values import UnsupportedError
from twopc.sim.scenario.check import parse

FILE = """\
twopc: 1
name: test
about: Written in a test.
topology: {publisher: pub, subscribers: [sub1], timeouts: {step: 60s}}
subscribers:
  sub1: {update: read only}
tables:
  t:
    columns: {id: int primary key, n: int not null}
    rows: [{id: 1, n: 10}, {id: 2, n: 20}, {id: 3, n: 30}]
procedures:
  raised:
    type: proc exec
    body: |
      create procedure raised(inout which int, out was int, by int default 2 * 3, note text default 'by default')
      language plpgsql as $$
      begin
          select n into was from t where id = which;
          update t set n = n + by where id = which;
          which := which + 100;
      end $$
  several:
    type: proc exec
    body: |
      create procedure several(by int, variadic which int[])
      language plpgsql as $$
      begin
          update t set n = n + by where id = any (which);
      end $$
  doubled:
    type: proc exec
    body: |
      create function doubled(which int, out result int)
      language plpgsql as $$
      begin
          update t set n = n * 2 where id = which returning n into result;
      end $$
sessions:
  office:
    node: pub
    steps:
      - defaults: {check: "call raised(1, null)", rows: [{which: 101, was: 10}]}
      - given: {check: "call raised(2, null, 1)", rows: [{which: 102, was: 20}]}
      - named: {check: "call raised(which => 3, was => null, note => 'x')", rows: [{which: 103, was: 30}]}
      - many: {sql: "call several(1000, 1, 2)"}
      - whole: {sql: "call several(1000, variadic array[3])"}
      - value: {check: "select doubled(1) as d", rows: [{d: 2032}]}
      - wrong: {sql: "call raised(1)"}
      - unknown: {sql: "call raised(which => 1, was => null, nothing => 2)"}
  reader:
    node: sub1
    steps: [r_sync: sync]
orders:
  - name: alone
    steps: [defaults, given, named, many, whole, value, wrong, unknown, r_sync]
    expect:
      steps:
        wrong: {error: "42883"}
        unknown: {error: "42883"}
        r_sync: {delivered: 6, calls: 6}
      tables: {t: {everywhere: [{id: 1, n: 2032}, {id: 2, n: 1021}, {id: 3, n: 1036}]}}
"""


async def test_on_servers(play: Callable[..., Awaitable[Any]]) -> None:
    """On servers, output parameters are returned, and defaults and arrays are replicated."""
    played = await play(FILE, head="")
    assert played.failures == []


def test_in_the_model() -> None:
    """In the model, the results are those of servers."""
    verdict, _ = on_model(parse(FILE, "test.twopc.yaml"))
    assert [failure.message for order in verdict.orders for failure in order.failures] == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "create procedure p(out a int) language sql as $$ select 1 $$",
            "output parameters of a function in SQL",
        ),
        (
            "create function f(out a int, out b int) language plpgsql as $$ begin a := 1; end $$",
            "several output parameters of a function",
        ),
    ],
)
def test_what_the_model_does_not_know(text: str, what: str) -> None:
    """What the model does not support is refused by name."""
    with pytest.raises(UnsupportedError, match=what):
        make_node(SimpyKernel()).define(text)
