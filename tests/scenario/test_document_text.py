"""A scenario is written as one text, with its values as they were read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twopc.sim.scenario import check
from twopc.sim.scenario.document_text import document_text
from twopc.sim.scenario.sources import resolve
from twopc.sim.scenario.text import Number, parse

SCENARIOS = Path(__file__).parents[2] / "scenarios"
#: The first file of each folder, and one that extends another.
SHIPPED = (
    *{each.parent: each for each in sorted(SCENARIOS.rglob("*.twopc.yaml"), reverse=True)}.values(),
    SCENARIOS / "stress" / "replay_unsynchronised.twopc.yaml",
)
#: Values that a careless writer would change.
VALUES = r"""
twopc: 1
name: values
number: 08001
decimal: 1.50
text: ["08001", "1.50", "true", "null", "~", "", " a ", "- a", "a: b", "# a", "2026-01-01", "'", "\"", "\\"]
odd: ["\0", "\x1b", "\x85", "\u2028", "\t", "\n", " \n", "a\n\n  b\n", "\r\n", "ä💥"]
truth: [true, false]
nothing: null
block: |
  one
    two
folded: >
  one
  two
first: &shared {a: 1, b: [1, {c: null}]}
again: *shared
empty: [{}, []]
"""


def _types(value: Any) -> Any:
    """Return the value with what distinguishes numbers, texts and truth values."""
    if isinstance(value, dict):
        return {key: _types(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_types(each) for each in value]
    return ("number", str(value)) if isinstance(value, Number) else (type(value).__name__, value)


def test_every_value_is_read_again_as_it_was() -> None:
    """Numbers, texts that look like other types, and line breaks are read again as they were."""
    document = parse(VALUES, "values.yaml")
    assert document.errors == []
    again = parse(document_text(document), "again.yaml")
    assert again.errors == []
    assert _types(again.root) == _types(document.root)


def test_a_scenario_is_the_same_when_it_is_written() -> None:
    """A written scenario equals the original, without the files from which that takes parts."""
    for path in SHIPPED:
        document, loaded = check.examine(path)
        assert loaded is not None
        again = check.parse(document_text(document), f"elsewhere/{path.name}")
        assert not again.document.sources
        taken = {"extends": None, "include": ()}
        assert again.scenario == loaded.scenario.model_copy(update=taken), path.name


def test_what_is_taken_away_stays_away(tmp_path: Path) -> None:
    """A key that the extending file sets to null is not written."""
    (tmp_path / "base.yaml").write_text(
        "twopc: 1\nname: base\nseed: 1\ntags: [a]\n", encoding="utf-8"
    )
    document = parse("twopc: 1\nname: own\nextends: base.yaml\nseed: null\n", str(tmp_path / "own"))
    resolve(document)
    assert document_text(document) == "twopc: 1\nname: own\ntags: [a]\n"
