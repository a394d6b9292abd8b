"""The page about scenario files names everything that the models read, and its example is right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sim.cli import exits
from sim.scenario import model
from sim.scenario.check import parse
from sim.scenario.parts import Part
from twopc.errors import KINDS

PAGE = (Path(__file__).parents[2] / "docs/scenarios.md").read_text(encoding="utf-8")
PARTS = [each for each in vars(model).values() if isinstance(each, type) and issubclass(each, Part)]
WORDS = set(re.findall(r"[\w]+", PAGE))


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_key_is_there(part):
    assert set(part.keys()) <= WORDS


def test_every_kind_and_exit_code_is_there():
    assert set(KINDS) <= WORDS
    assert {str(code) for code in exits.WORST_FIRST} <= WORDS | {"7"}


def test_the_example_is_right():
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert parse(example).document.problems == []


def test_what_is_refused_by_name_is_refused():
    later = {word for part in PARTS for word in part.later}
    (sentence,) = re.findall(r"What is not supported yet(.*?)\n\n", PAGE, re.DOTALL)
    assert set(re.findall(r"`(\w+)`", sentence)) <= later
