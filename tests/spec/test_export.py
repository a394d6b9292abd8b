"""Tests that scenarios of Publisher sessions become specs, and all others are refused by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from twopc.errors import ScenarioError
from twopc.sim.scenario.check import from_document, load, parse
from twopc.sim.scenario.spec import convert
from twopc.sim.scenario.spec.export import spec

HEAD = """\
twopc: 1
name: till
about: Two clerks at one till.
topology: {publisher: pub, subscribers: [], distribution: none}
tables:
  till:
    columns: {id: int primary key, owner: text, sum: int}
    sql: create index on till (sum)
    rows: [{id: 1, owner: "O'Hara", sum: 100}, {id: 2, owner: null, sum: 5}]
sessions:
  ada:
    node: pub
    steps:
      - a_begin: begin
      - a_take: {sql: "update till set sum = sum - 10 where id = 1"}
      - a_note: {explain: "she has taken it"}
      - a_end: commit
  bob:
    node: pub
    steps:
      - "step": {lines: ["select 1", "update till set sum = 0 where id = 1"]}
"""
LISTED = """\
orders:
  - name: one
    about: The first waits.
    steps: [a_begin, a_take, a_note, step, {wait: step blocked}, a_end]
  - name: two
    steps: [a_begin, a_take, step, {rollback: ada}]
"""


def test_a_scenario_of_the_publisher_only() -> None:
    assert (
        spec(parse(HEAD + LISTED))
        == """\
# Two clerks at one till.

setup
{
    create table "till" ("id" int primary key, "owner" text, "sum" int);
    create index on till (sum);
    insert into "till" ("id", "owner", "sum") values ('1', 'O''Hara', '100');
    insert into "till" ("id", "owner", "sum") values ('2', null, '5');
}
teardown { drop table "till" cascade; }

session ada
step a_begin { begin isolation level read committed; }
step a_take { update till set sum = sum - 10 where id = 1; }
step a_end { commit; }
step ada_rolls_back { rollback; }

session bob
step "step"
{
    select 1;
    update till set sum = 0 where id = 1;
}

# The first waits.
permutation a_begin a_take "step" a_end
permutation a_begin a_take "step" ada_rolls_back
"""
    )


def test_generated_orders_are_listed() -> None:
    some = 'orders: [{name: some, generate: {before: ["a_take < step"]}}]'
    text = spec(parse(HEAD + some))
    assert text.endswith(
        '# some\npermutation a_begin a_take a_end "step"\npermutation a_begin a_take "step" a_end\n'
    )
    for every in ("all", "{limit: none, reduce: none}"):
        text = HEAD + f"orders: [{{name: every, generate: {every}}}]"
        assert "permutation" not in spec(parse(text))


def test_what_was_imported_is_exported_again() -> None:
    path = Path(__file__).parent / "specs" / "repeated.spec"
    once = from_document(convert.document(path.read_text(encoding="utf-8"), "repeated.spec"))
    again = from_document(convert.document(spec(once), "again.spec"))

    assert list(again.scenario.steps) == list(once.scenario.steps)
    assert [order.steps for order in again.scenario.orders] == [
        order.steps for order in once.scenario.orders
    ]
    assert again.scenario.setup == once.scenario.setup


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("{rollback: ada}]", "{wait: step done}]", "'wait' has no place in a permutation"),
        ("where id = 1\"}", "where id = :one\", params: {one: 1}}", "uses a parameter"),
        ("select 1", "select '{1}'", "a closing brace ends a spec's SQL"),
        ("    steps: [a_begin, a_take, step,", "    isolation: serializable\n    steps: [a_begin, a_take, step,",
         "of several levels: read committed, serializable"),
    ],
)  # fmt: skip
def test_what_a_spec_cannot_say_is_refused_with_its_place(old, new, told) -> None:
    text = HEAD + LISTED
    assert text.count(old) == 1

    with pytest.raises(ScenarioError, match=told) as caught:
        spec(parse(text.replace(old, new), "till.twopc.yaml"))

    assert str(caught.value).startswith("till.twopc.yaml:")
    assert "^" in str(caught.value)


def test_a_value_of_another_file_is_refused_with_its_place_there(tmp_path: Path) -> None:
    """The error names the file, line and column of the value itself, and shows its line."""
    (tmp_path / "till.yaml").write_text(
        "twopc: 1\ntables:\n  till:\n    columns: {id: int primary key, note: text}\n"
        "    rows:\n      - {id: 1, note: none}\n      - {id: 2, note: 'a } b'}\n",
        encoding="utf-8",
    )
    main = tmp_path / "main.twopc.yaml"
    main.write_text(
        "twopc: 1\nname: till\ninclude: till.yaml\n"
        "topology: {publisher: pub, subscribers: [], distribution: none}\n"
        "sessions:\n  ada:\n    node: pub\n    steps:\n      - step: {sql: select 1}\n"
        "orders:\n  - {name: one, steps: [step]}\n",
        encoding="utf-8",
    )

    with pytest.raises(ScenarioError, match="a closing brace ends") as caught:
        spec(load(main))

    first, excerpt, _ = str(caught.value).splitlines()
    assert first.startswith(f"{tmp_path / 'till.yaml'}:7:9: error: ")
    assert excerpt == "     7 |       - {id: 2, note: 'a } b'}"


def test_a_session_at_a_subscriber_is_refused() -> None:
    path = Path(__file__).parents[2] / "scenarios" / "immediate" / "aba.twopc.yaml"

    with pytest.raises(ScenarioError, match="is at a Subscriber; a spec knows one database"):
        spec(load(path))
