"""Tests of published routines in scenarios: counts, expected differences, rights, nested calls."""

from __future__ import annotations

import pytest

from tests.model.stage.toys import loaded, play

FILE = """
twopc: 1
name: procedures
topology: {publisher: pub, subscribers: [sub1], isolation: serializable}
subscribers: {sub1: {update: read only}}
tables:
  account:
    columns: {id: int primary key, balance: int not null}
    rows: [{id: 1, balance: 100}, {id: 2, balance: 200}]
  note: {columns: {id: int primary key}}
procedures:
  add:
    body: create procedure add(more int) language sql as $$ update account set balance = balance + more $$
    reads: [account]
    writes: [account]
  add_twice:
    body: |
      create procedure add_twice(more int) language plpgsql as $$ begin
          call add(more); call add(more); if more > 1000 then raise exception 'too much'; end if; end $$
    reads: [account]
    writes: [account]
sessions:
  p:
    node: pub
    steps:
      - begins: begin
      - adds: {sql: call add(1)}
      - temp: {sql: create temporary table mine (id int)}
      - twice: {sql: call add_twice(10)}
      - note: {sql: insert into note values (1)}
      - save: {sql: savepoint s}
      - much: {sql: call add_twice(2000)}
      - back: {sql: rollback to savepoint s}
      - ends: commit
  s: {node: sub1, steps: [anew: reinitialise, sync: sync]}
  other: {node: sub1, plain: true, steps: [writes: {sql: update account set balance = 0}, reads: {sql: select balance from account where id = 1}]}
orders:
"""


def told(order: str) -> list[str]:
    """Return the messages of an order's failures."""
    verdict, _ = play(loaded(f"{FILE}  - {order}\n"))
    return [failure.message for each in verdict.orders for failure in each.failures]


def test_calls_and_rows_are_counted() -> None:
    steps = "name: o, steps: [begins, adds, note, adds2, ends, sync]".replace(", adds2", "")
    assert told(f"{{{steps}, expect: {{commands: {{sub1: {{calls: 1, rows: 1}}}}}}}}") == []
    assert told(f"{{{steps}, expect: {{commands: {{sub1: {{calls: 2, rows: 0}}}}}}}}") == [
        "commands: the agent of sub1 applied 1 calls, not 2",
        "commands: the agent of sub1 applied 1 rows, not 0",
    ]
    assert told(f"{{{steps}, expect: {{steps: {{sync: {{calls: 2}}}}}}}}") == [
        "sync: expected 2 calls, got 1"
    ]


def test_what_must_differ_must_differ() -> None:
    assert told("{name: o, steps: [adds, sync], expect: {diverged: {sub1: [account]}}}") == [
        "diverged: account at sub1 is as at the Publisher"
    ]


def test_what_differs_must_be_said() -> None:
    """`diverged` must name every table whose copy differs, and no other."""
    drift = FILE.replace(
        "update: read only}", "update: read only, sql: update account set balance = 7 where id = 1}"
    )
    verdict, _ = play(
        loaded(
            f"{drift}  - {{name: o, steps: [note, sync], expect: {{diverged: {{sub1: note}}}}}}\n"
        )
    )
    said = [failure.message for failure in verdict.orders[0].failures]
    assert said == [
        "diverged: note at sub1 is as at the Publisher",
        "diverged: account at sub1 differs from the Publisher's",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "calls", "rows"),
    [
        ("begins, twice, ends", 1, 0),  # the outer call stands for the inner ones
        ("begins, adds, twice, ends", 2, 0),
        (
            "begins, adds, save, much, back, ends",
            1,
            0,
        ),  # the failed call was rolled back
        ("begins, adds, temp, twice, ends", 1, 4),  # the body may refer to a temporary table
    ],
)
def test_calls_in_calls_and_savepoints(steps: str, calls: int, rows: int) -> None:
    expected = "steps: {much: {error: P0001}}, " if "much" in steps else ""
    counted = f"commands: {{sub1: {{calls: {calls}, rows: {rows}}}}}"
    assert told(f"{{name: o, steps: [{steps}, sync], expect: {{{expected}{counted}}}}}") == []


def test_only_agents_write() -> None:
    order = "{name: o, steps: [adds, sync, writes, reads], expect: {steps: {writes: {error: 42501}, reads: {rows: [{balance: 101}]}}}}"
    assert told(order) == []


def test_calls_around_a_new_copy() -> None:
    """Calls that a new copy includes are not repeated there; later calls are delivered."""
    order = "{name: o, steps: [adds, anew, twice, sync], expect: {tables: {account: {everywhere: [{id: 1, balance: 121}, {id: 2, balance: 221}]}}}}"
    assert told(order) == []
