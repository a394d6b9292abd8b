"""Tests of what a scenario takes from other files, and of its positions there."""

from __future__ import annotations

import pytest

from twopc.errors import ScenarioError
from twopc.sim.scenario.check import examine, load
from twopc.sim.scenario.text import Mark

BANK = """\
twopc: 1
tables:
  account:
    columns: {id: int primary key, balance: int not null}
    rows: [{id: 1, balance: 100}]
transactions:
  deposit: {sql: "update account set balance = balance + 1 where id = 1"}
"""
BASE = """\
twopc: 1
name: base
about: a base
tags: [conflict]
include: common/bank.yaml
topology:
  publisher: pub
  subscribers: [sub1, sub2]
  timeouts: {step: 1s, lock: 2s}
sessions:
  alice: {node: sub1, steps: [{a_write: {sql: "update account set balance = 1"}}]}
  bob: {node: sub2, steps: [{b_write: {sql: "update account set balance = 2"}}]}
orders:
  - {name: alice first, steps: [a_write, b_write]}
twin: {protections: {version_check: off}, must_fail: no_lost_update}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "common").mkdir()
    (tmp_path / "common/bank.yaml").write_text(BANK, encoding="utf-8")
    (tmp_path / "base.yaml").write_text(BASE, encoding="utf-8")

    def write(text, name="file.twopc.yaml"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_an_included_table_comes_first(folder):
    path = folder(
        BASE.replace("sessions:", "tables: {own: {columns: {id: int primary key}}}\nsessions:")
    )
    scenario = load(path).scenario
    assert list(scenario.tables) == ["account", "own"]
    assert list(scenario.transactions) == ["deposit"]
    assert scenario.include == ("common/bank.yaml",)


def test_what_is_not_its_own_is_not_taken_from_a_base(folder):
    path = folder("twopc: 1\nname: own\nextends: base.yaml\n")
    scenario = load(path).scenario
    assert (scenario.name, scenario.about, scenario.twins) == ("own", "", ())
    assert scenario.tags == ("conflict",)
    assert [order.name for order in scenario.orders] == ["alice first"]


def test_mappings_merge_and_the_rest_replaces(folder):
    path = folder("""\
twopc: 1
name: own
about: x
extends: base.yaml
topology: {timeouts: {step: 3s}, subscribers: [sub1, sub2, sub3]}
sessions:
  bob: null
  carol: {node: sub3, steps: [{c_write: {sql: "update account set balance = 3"}}]}
orders:
  - {name: carol first, steps: [c_write, a_write]}
""")
    scenario = load(path).scenario
    assert scenario.topology.publisher == "pub"
    assert scenario.topology.subscribers == ("sub1", "sub2", "sub3")
    assert (scenario.topology.timeouts.step_ms, scenario.topology.timeouts.lock_ms) == (3000, 2000)
    assert list(scenario.sessions) == ["alice", "carol"]
    assert [order.name for order in scenario.orders] == ["carol first"]


def test_places_stay_where_they_are(folder):
    path = folder("twopc: 1\nname: own\nabout: x\nextends: base.yaml\ntags: [own]\n")
    loaded = load(path)
    document = loaded.document
    base, bank = str(path.parent / "base.yaml"), str(path.parent / "common/bank.yaml")
    assert document.mark(("tags", 0)) == Mark(5, 8)
    assert document.mark(("topology", "publisher")) == Mark(7, 14, base)
    assert document.mark(("tables", "account"), key=True) == Mark(3, 3, bank)
    assert (
        document.excerpt(document.mark(("topology", "publisher")))[0] == "     7 |   publisher: pub"
    )
    assert document.where(document.mark(("topology", "publisher"))) == f"{base}:7:14"
    assert set(document.sources) == {base, bank}


def test_only_what_is_in_the_own_file_can_be_changed_there(folder):
    path = folder("twopc: 1\nname: own\nextends: base.yaml\ntopology: {shipping: lazy}\n")
    document = load(path).document
    begin, end = document.span(("topology", "shipping"))
    assert document.text[begin:end] == "lazy"
    assert document.span(("topology", "publisher")) is None
    assert document.span(("orders", 0, "name")) is None


def test_own_problems_come_first(folder):
    path = folder("""\
twopc: 1
name: own
extends: base.yaml
topology: {publisher: pub, subscribers: [sub1]}
orders: [{name: one, steps: [nothing]}]
""")
    document, _ = examine(path)
    base = str(path.parent / "base.yaml")
    heads = [
        line
        for line in document.report().splitlines()
        if ": error: " in line or ": warning: " in line
    ]
    assert [line.split(":")[0] == str(path) for line in heads] == [True] * (len(heads) - 1) + [
        False
    ]
    assert heads[-1].startswith(f"{base}:12:15: error: session 'bob': no node 'sub2'")


def test_a_mistake_in_another_file_is_shown_there(folder):
    (folder("").parent / "common/bank.yaml").write_text(
        BANK.replace("balance: 100", "balanse: 100"), encoding="utf-8"
    )
    with pytest.raises(ScenarioError) as caught:
        load(folder(BASE))
    assert "common/bank.yaml:5:20: error: no column 'balanse', did you mean 'balance'?" in str(
        caught.value
    )
    assert "     5 |     rows: [{id: 1, balanse: 100}]" in str(caught.value)


def test_five_files_are_not_too_many(folder):
    for number in range(1, 5):
        folder(f"twopc: 1\nextends: base{number + 1}.yaml\n", f"base{number}.yaml")
    folder(BASE, "base5.yaml")
    path = folder("twopc: 1\nname: own\nabout: x\nextends: base1.yaml\n")
    assert load(path).scenario.topology.publisher == "pub"


def test_a_base_that_includes_and_a_file_that_does_too(folder):
    (folder("").parent / "common/log.yaml").write_text(
        "twopc: 1\ntables: {log: {columns: {id: int primary key}}}\n", encoding="utf-8"
    )
    path = folder("twopc: 1\nname: own\nabout: x\nextends: base.yaml\ninclude: [common/log.yaml]\n")
    assert list(load(path).scenario.tables) == ["log", "account"]


def test_the_same_table_from_two_files(folder):
    path = folder("twopc: 1\nname: own\nextends: base.yaml\ninclude: common/bank.yaml\n")
    with pytest.raises(ScenarioError, match=r"table 'account' is at .*common/bank.yaml:3 already"):
        load(path)


def test_standard_input(folder, monkeypatch):
    import io
    import sys

    monkeypatch.chdir(folder("").parent)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BASE.encode()), encoding="utf-8"))
    loaded = load("-")
    assert (loaded.document.path, loaded.scenario.name) == ("-", "base")


def test_a_spec(tmp_path):
    path = tmp_path / "two.spec"
    path.write_text(
        "setup { create table t (id int primary key); }\nsession s1 step a { select * from t; }\n"
        "session s2 step b { insert into t values (1); }\npermutation a b\n",
        encoding="utf-8",
    )
    loaded = load(path)
    assert loaded.scenario.sessions["s1"].plain
    assert [item.step for item in loaded.scenario.orders[0].steps] == ["a", "b"]
