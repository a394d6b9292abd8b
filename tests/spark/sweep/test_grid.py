"""Tests of a sweep's grid: its syntax, the placement of values, and the display of errors."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from twopc.errors import ScenarioError
from twopc.sim.scenario import check
from twopc.sim.spark.sweep import grid

SMALL = str(Path(__file__).with_name("small.yaml"))


def test_combinations_in_the_order_given() -> None:
    """Values of the last key change first."""
    found = grid.parse_grid(["workload.clients=2,8", "workload.sync=100ms, 1s"])
    assert [each.number for each in found] == [0, 1, 2, 3]
    assert [each.label for each in found] == [
        "workload.clients=2, workload.sync=100ms",
        "workload.clients=2, workload.sync=1s",
        "workload.clients=8, workload.sync=100ms",
        "workload.clients=8, workload.sync=1s",
    ]


def test_commas_inside_a_value() -> None:
    """Quotes and brackets protect commas."""
    (first, second) = grid.parse_grid(["workload.keys={table: account, pick: [a, {b: c}]},'x,y'"])
    assert first.settings == (("workload.keys", "{table: account, pick: [a, {b: c}]}"),)
    assert second.settings == (("workload.keys", "'x,y'"),)


def test_nothing_is_set() -> None:
    """Without settings there is one point, the unchanged scenario; a key without values gives none."""
    assert grid.parse_grid([]) == [grid.Point(0, ())]
    assert grid.parse_grid(["workload.clients=2", "workload.sync="]) == []


@pytest.mark.parametrize(
    ("sets", "said"),
    [
        (["workload.clients"], "write KEY=V1,V2"),
        (["=3"], "write KEY=V1,V2"),
        (["workload..clients=3"], "write KEY=V1,V2"),
        (["workload.clients=3,,4"], "a comma without a value"),
        (["workload.clients=3,3"], "'3' is in the list already"),
        (["workload.clients=3", "workload.clients=4"], "means what 'workload.clients' means"),
        (["workload=3", "workload.clients=4"], "means what 'workload' means"),
    ],
)
def test_a_grid_that_is_none(sets: list[str], said: str) -> None:
    """The error quotes the setting, and shows the right syntax."""
    with pytest.raises(ScenarioError, match=said) as caught:
        grid.parse_grid(sets)
    assert sets[-1] in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("workload.clientz=1", r"--set:1:1: error: unknown key 'clientz', did you mean 'clients'\?"),
        ("workload.clients=x", r"--set:1:19: error: expected a whole number, not 'x'\n +1 \| workload"),
        ("workload.during.3.for=1s", r"--set:1:1: error: 'workload.during' is a list: it has 0 to 0"),
        ("workload.during.for=1s", r"and not 'for'"),
        ("workload.for=: {", r"--set:1:15: error: put a value that contains ': ' in quotes"),
        ("shipping=sideways", r"--set:1:11: error: 'sideways' is not one of"),
    ],
)  # fmt: skip
def test_a_value_that_is_refused(setting: str, said: str) -> None:
    """A refused value is reported like the checker's errors, with its place on the command line."""
    (point,) = grid.parse_grid([setting])
    with pytest.raises(ScenarioError, match=said):
        grid.with_settings(grid.read(SMALL), point.settings)


def test_values_are_put_where_they_belong() -> None:
    """Values are set in the scenario, its topology, and lists; the document is unchanged."""
    document = grid.read(SMALL)
    loaded = grid.with_settings(
        document,
        [("workload.clients", "7"), ("shipping", "lazy"), ("workload.during.0.for", "50ms")],
    )
    workload = loaded.scenario.workload
    assert workload is not None
    assert (workload.clients, loaded.scenario.topology.shipping) == (7, "lazy")
    assert workload.during[0].for_ms == 50
    before = grid.with_settings(document, ()).scenario.workload
    assert before is not None
    assert (before.clients, before.during[0].for_ms) == (2, 100)


def test_a_key_of_the_own_matrix(tmp_path: Path) -> None:
    """A key of the scenario's own matrix is refused, because the matrix would override it."""
    path = tmp_path / "m.twopc.yaml"
    path.write_text(
        Path(SMALL).read_text(encoding="utf-8") + "matrix: {shipping: [eager, lazy]}\n",
        encoding="utf-8",
    )
    with pytest.raises(ScenarioError, match="own matrix gives 'shipping' its values"):
        grid.with_settings(grid.read(str(path)), [("shipping", "lazy")])


def test_without_files(tmp_path: Path) -> None:
    """The document contains included files, so that it can be played without them."""
    shared = tmp_path / "shared.yaml"
    text = Path(SMALL).read_text(encoding="utf-8")
    tables, rest = text[text.index("tables:") : text.index("workload:")], text
    shared.write_text("twopc: 1\n" + tables, encoding="utf-8")
    own = tmp_path / "own.twopc.yaml"
    own.write_text(rest.replace(tables, "include: shared.yaml\n"), encoding="utf-8")
    document = grid.read(str(own))
    before = grid.with_settings(document, [("workload.clients", "3")])
    shared.unlink()
    own.unlink()
    travelled = pickle.loads(pickle.dumps(document))
    loaded = grid.with_settings(travelled, [("workload.clients", "3")])
    assert loaded.scenario == before.scenario
    assert "account" in loaded.scenario.tables


def test_the_scenario_that_plays_a_point_again(tmp_path: Path) -> None:
    """The written scenario extends the file, and equals the point's."""
    document = grid.read(SMALL)
    settings = [("workload.clients", "7"), ("workload.during.0.for", "50ms"), ("shipping", "lazy")]
    path = tmp_path / "again.twopc.yaml"
    path.write_text(grid.extending(document, settings, base=SMALL), encoding="utf-8")
    again = check.load(path).scenario.model_copy(update={"extends": None})
    assert again == grid.with_settings(document, settings).scenario
