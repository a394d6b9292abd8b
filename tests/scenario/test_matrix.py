"""Tests of matrices: a scenario is loaded once for each cell."""

from __future__ import annotations

import cProfile
import pstats

import pytest

from twopc.errors import ScenarioError
from twopc.sim.scenario import matrix
from twopc.sim.scenario.check import examine, parse
from twopc.sim.scenario.values import Cell

FILE = """\
twopc: 1
name: two
about: x
topology: {publisher: pub, subscribers: [sub1, sub2]}
tables: {t: {columns: {id: int primary key, n: int}}}
sessions:
  alice: {node: sub1, steps: [{a_write: {sql: "update t set n = 1"}}]}
  bob: {node: sub2, steps: [{b_write: {sql: "update t set n = 2"}}]}
orders: [{name: one, steps: [a_write, b_write]}]
"""


def test_without_one_there_is_one_cell():
    loaded = parse(FILE)
    assert loaded.cells == ((Cell(), loaded.scenario),)


def test_every_combination_in_the_order_of_the_file():
    loaded = parse(
        FILE + "matrix: {isolation.pub: [read committed, serializable], shipping: [eager, lazy]}\n"
    )
    assert [cell.label for cell, _ in loaded.cells] == [
        "read committed, eager",
        "read committed, lazy",
        "serializable, eager",
        "serializable, lazy",
    ]
    for cell, scenario in loaded.cells:
        values = dict(cell.values)
        assert scenario.topology.isolation == {"pub": values["isolation.pub"]}
        assert scenario.topology.shipping == values["shipping"]
    assert loaded.scenario.topology.isolation == {}
    assert loaded.scenario.topology.shipping == "eager"


@pytest.mark.parametrize(
    ("key", "values", "path"),
    [
        ("tables.t.filter", '["id > 1", "n > 1"]', ("tables", "t", "filter")),
        ("subscribers.sub1.streams", "[1, 4]", ("subscribers", "sub1", "streams")),
        ("sessions.bob.node", "[sub1, sub2]", ("sessions", "bob", "node")),
        ("topology.commit", "[last_agent, presumed_abort]", ("topology", "commit")),
        ("timeouts.lock", "[1s, 2s]", ("topology", "timeouts", "lock_ms")),
    ],
)
def test_a_dotted_key_leads_below_the_topology_or_into_what_it_begins_with(key, values, path):
    found = []
    for _, scenario in parse(FILE + f"matrix: {{{key}: {values}}}\n").cells:
        here = scenario
        for part in path:
            here = here[part] if isinstance(here, dict) else getattr(here, part)
        found.append(here)
    assert len(set(found)) == 2


def test_a_value_of_a_cell_stands_where_it_does_in_the_matrix():
    with pytest.raises(
        ScenarioError,
        match=r"^scenario:10:10: error: unknown key 'streams', which is a key of a Subscriber",
    ):
        parse(FILE + "matrix: {streams: [1]}\n")


def test_one_level_for_all_is_kept_for_the_others():
    text = FILE.replace("sub2]}", "sub2], isolation: serializable}", 1)
    loaded = parse(text + "matrix: {isolation.pub: [read committed]}\n")
    assert loaded.cells[0][1].topology.isolation == {"pub": "read committed"}
    loaded = parse(text + "matrix: {isolation.sub1: [serializable]}\n")
    assert loaded.cells[0][1].topology.isolation == {"*": "serializable", "sub1": "serializable"}


@pytest.mark.parametrize(
    ("key", "label", "does"),
    [
        ("serializable", "serializable, lazy", True),
        ("lazy, serializable", "serializable, lazy", True),
        ("eager", "serializable, lazy", False),
        ("serializable, eager", "serializable, lazy", False),
    ],
)
def test_which_cells_an_expectation_is_about(key, label, does):
    cell = Cell(values=tuple((str(at), value) for at, value in enumerate(label.split(", "))))
    assert matrix.fits(key, cell) is does


def test_what_is_wrong_in_every_cell_is_said_once():
    with pytest.raises(ScenarioError) as caught:
        parse(
            FILE.replace("a_write, b_write", "a_write, b_wirte")
            + "matrix: {shipping: [eager, lazy]}\n"
        )
    assert str(caught.value).count("error:") == 1


def test_twelve_cells_cost_less_than_three_files(tmp_path):
    """Twelve cells need fewer calls than three files, since the file is read once.

    Calls are counted, because times depend on how busy the machine is.
    """

    def calls(cells, text):
        path = tmp_path / f"{cells}.twopc.yaml"
        path.write_text(f"{FILE}matrix: {{{text}}}\n", encoding="utf-8")
        examine(path)  # work that each process does only once
        profile = cProfile.Profile()
        _, loaded = profile.runcall(examine, path)
        assert len(loaded.cells) == cells
        return pstats.Stats(profile).total_calls

    isolation = "isolation.pub: [read committed, repeatable read, serializable]"
    twelve = f"{isolation}, shipping: [eager, lazy], commit: [presumed_abort, last_agent]"
    assert calls(12, twelve) < 3 * calls(1, "shipping: [lazy]")
