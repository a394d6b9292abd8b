"""Tests of the page about scenario files: it names all that models read; its example is valid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from twopc.errors import KINDS
from twopc.merge.protections import MergeProtection
from twopc.sim.cli import exits
from twopc.sim.model.plants.protections import SUPPORTED as ON_MODEL
from twopc.sim.scenario import text
from twopc.sim.scenario.check import from_document, parse
from twopc.sim.scenario.meanings import INVARIANTS, PROTECTIONS
from twopc.sim.scenario.parts import Part
from twopc.sim.topology.protections import SUPPORTED as ON_SERVERS

PAGE = (Path(__file__).parents[2] / "docs/scenarios.md").read_text(encoding="utf-8")
PARTS = Part.__subclasses__()
WORDS = set(re.findall(r"[\w]+", PAGE))


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_key_is_there(part):
    assert set(" ".join(part.keys()).split()) <= WORDS


def test_every_kind_and_exit_code_is_there():
    assert set(KINDS) <= WORDS
    assert {str(code) for code in exits.WORST_FIRST} <= WORDS


EXAMPLE, *PIECES = re.findall(r"```(?:yaml)?\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_is_right():
    assert parse(EXAMPLE).document.problems == []


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: piece.strip().splitlines()[0])
def test_each_piece_fits_the_example(piece):
    """The example remains valid with the keys of each piece; an order becomes its `orders`."""
    document = text.parse(EXAMPLE, "page")
    shown = text.parse(piece if piece[0] != " " else f"orders:\n{piece}", "piece")
    assert not shown.errors or "the file is empty" in shown.errors[0].message
    for key in shown.root or ():
        document.root.take(key, shown.root[key], shown.root)
    if "workload" in document.root:
        del document.root["sessions"], document.root["orders"]
    document.root["topology"]["subscribers"].append("sub3")
    assert from_document(document).document.errors == []


def test_what_is_refused_by_name_is_refused():
    refused = {word for part in PARTS for word in part.refused}
    (sentence,) = re.findall(r"Refused by name(.*?)\n\n", PAGE, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", sentence)) == refused


def test_protections_and_invariants_have_the_words_of_their_one_source():
    """The page describes every protection and invariant with the text that the explorer shows."""
    rows = [tuple(each.strip("| ").split(" | ")) for each in PAGE.splitlines() if each[:3] == "| `"]
    texts = {name.strip("`"): tuple(words) for name, *words in rows}
    names = {*ON_SERVERS, *ON_MODEL, *MergeProtection}
    assert {name: texts.get(name) for name in names} == {n: tuple(PROTECTIONS[n]) for n in names}
    plain = {name.partition(":")[0]: words for name, words in texts.items()}
    for name, meaning in INVARIANTS.items():
        assert plain.get(name) == (meaning,) or f"`{name}`: {meaning}" in PAGE
